"""A table of the paper: its cells, the paper's numbers, and the runs for ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.records.summary import Measure


@dataclass(frozen=True)
class Style:
    """How the numbers of a cell are printed."""

    digits: int = 0
    """Digits after the decimal point."""
    percent: bool = False
    """Whether numbers are multiplied by 100."""
    suffix: str = ""
    """Text after the number, such as a percent sign."""

    def number(self, value: float) -> str:
        """Format one number.

        >>> Style(2, percent=True, suffix="%").number(1 / 15)
        '6.67%'
        """
        shown = f"{100 * value if self.percent else value:.{self.digits}f}"
        return shown + self.suffix


@dataclass(frozen=True)
class Plan:
    """The runs whose mean is the number in a cell: all seeds and folds of a config."""

    experiment: str
    """The experiment that the config is derived from."""
    config: RunConfig
    """The config of the runs; its seed and fold are ignored."""
    epochs: int
    """Number of epochs of the paper's runs."""
    runs: int
    """Number of seeds (0, 1, ...)."""
    folds: int | None
    """Number of folds (0, 1, ...) for every seed; None for data without folds."""
    measure: Measure
    """The figure that is read from each record, such as the test score."""


@dataclass(frozen=True)
class Fact:
    """A statistic of a data set."""

    dataset: str
    """Name of the data set."""
    statistic: str
    """`outputs`, `graphs`, `nodes` or `edges`."""


@dataclass(frozen=True)
class Cell:
    """One cell: the paper's number, and where our number comes from."""

    row: str
    """Title of the row."""
    column: str
    """Title of the column."""
    paper: str | None
    """The paper's number as printed there; None if the paper has none."""
    style: Style
    """How our number is printed."""
    plan: Plan | None = None
    """The runs of our number; None for statistics, and for results that the paper
    quotes from other papers."""
    fact: Fact | None = None
    """The statistic; None for results of runs."""

    @property
    def title(self) -> str:
        """Title of the row and title of the column, as "row / column"."""
        return f"{self.row} / {self.column}"

    @property
    def config(self) -> RunConfig:
        """The config of the runs; only for cells that have a plan."""
        assert self.plan is not None
        return self.plan.config


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper."""

    name: str
    """The name for `gnnak table`."""
    caption: str
    """The caption."""
    notes: tuple[str, ...]
    """Notes below the table, needed to compare our numbers with the paper's."""
    columns: tuple[str, ...]
    """Titles of the columns."""
    rows: tuple[tuple[Cell, ...], ...]
    """Cells by row, one per column."""

    def cells(self) -> Iterator[Cell]:
        """Yield the cells with a plan, without those whose config occurred before.

        Several cells can show figures of the same runs, such as time and memory.
        """
        seen = set()
        for cell in (cell for row in self.rows for cell in row):
            if cell.plan is not None and cell.config not in seen:
                seen.add(cell.config)
                yield cell

    def changed(self, settings: Mapping[str, Any]) -> PaperTable:
        """Return this table with some settings of every run changed.

        A note below the table lists the changes, except `train.epochs`: cells that were
        trained for fewer epochs have a footnote anyway.

        Args:
            settings: Values by option, such as `{"train.epochs": 3}`.
        """
        listed = [f"{k} = {v}" for k, v in settings.items() if k != "train.epochs"]
        note = f"Not the paper's settings: {', '.join(listed)} in every run of ours."
        rows = tuple(tuple(_changed(cell, settings) for cell in r) for r in self.rows)
        return replace(self, rows=rows, notes=self.notes + ((note,) if listed else ()))


def _changed(cell: Cell, settings: Mapping[str, Any]) -> Cell:
    if cell.plan is None:
        return cell
    config = change(cell.config, settings)
    return replace(cell, plan=replace(cell.plan, config=config))
