"""What a table is: its cells, the paper's numbers, the runs that ours come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gnnak.training.config import RunConfig
from gnnak.training.options import change
from gnnak.training.summary import Measure


@dataclass(frozen=True)
class Style:
    """How the numbers of a cell are printed."""

    digits: int = 0
    """Digits behind the point."""
    percent: bool = False
    """Whether shares are printed times a hundred."""
    suffix: str = ""
    """What follows the number."""

    def number(self, value: float) -> str:
        """One number, as printed.

        >>> Style(2, percent=True, suffix="%").number(1 / 15)
        '6.67%'
        """
        shown = f"{100 * value if self.percent else value:.{self.digits}f}"
        return shown + self.suffix


@dataclass(frozen=True)
class Plan:
    """The runs that a cell is the mean of."""

    experiment: str
    """The experiment whose settings it starts from."""
    config: RunConfig
    """The settings; the seed and the fold in it are not read."""
    epochs: int
    """How many epochs the paper's runs have."""
    runs: int
    """How many seeds (0, 1, ...)."""
    folds: int | None
    """How many folds (0, 1, ...) for every seed; None for data that have none."""
    measure: Measure
    """What is read from the records."""


@dataclass(frozen=True)
class Fact:
    """A statistic of a data set."""

    dataset: str
    """The data set."""
    statistic: str
    """`outputs`, `graphs`, `nodes` or `edges`."""


@dataclass(frozen=True)
class Cell:
    """One cell: what the paper prints, and where our number comes from."""

    row: str
    """Title of the row."""
    column: str
    """Title of the column."""
    paper: str | None
    """The paper's text; None where it has none."""
    style: Style
    """How ours is printed."""
    plan: Plan | None = None
    """The runs; None for what the paper quotes, and for statistics."""
    fact: Fact | None = None
    """The statistic; None for results of runs."""

    @property
    def title(self) -> str:
        """Row and column."""
        return f"{self.row} / {self.column}"

    @property
    def config(self) -> RunConfig:
        """Settings of the runs; there are some for every cell of `cells()`."""
        assert self.plan is not None
        return self.plan.config


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper."""

    name: str
    """What it goes by here."""
    caption: str
    """What it shows."""
    notes: tuple[str, ...]
    """What a reader must know to compare the figures."""
    columns: tuple[str, ...]
    """Titles of the columns."""
    rows: tuple[tuple[Cell, ...], ...]
    """Cells, row by row, one a column."""

    def cells(self) -> Iterator[Cell]:
        """Every cell that is run, each once though several rows read its records."""
        seen = set()
        for cell in (cell for row in self.rows for cell in row):
            if cell.plan is not None and cell.config not in seen:
                seen.add(cell.config)
                yield cell

    def changed(self, settings: Mapping[str, Any]) -> PaperTable:
        """The same table with other settings in every run, such as fewer epochs.

        A note says which; epochs have their own, at the cells that are short of them.
        """
        told = [f"{k} = {v}" for k, v in settings.items() if k != "train.epochs"]
        note = f"Not the paper's settings: {', '.join(told)} in every run of ours."
        rows = tuple(tuple(_changed(cell, settings) for cell in r) for r in self.rows)
        return replace(self, rows=rows, notes=self.notes + ((note,) if told else ()))


def _changed(cell: Cell, settings: Mapping[str, Any]) -> Cell:
    if cell.plan is None:
        return cell
    config = change(cell.config, settings)
    return replace(cell, plan=replace(cell.plan, config=config))
