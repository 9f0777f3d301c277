"""The paper's ten tables: its numbers, and the runs that ours come from."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from gnnak.errors import OptionError
from gnnak.training.config import RunConfig
from gnnak.training.experiment import (
    CONFIGS,
    load_experiment,
    read_yaml,
)
from gnnak.training.options import change
from gnnak.training.summary import Measure

TABLES = CONFIGS / "tables"
ORDER = (
    "simulation",
    "ppgn-sr25",
    "real-world",
    "subgraphdrop",
    "datasets",
    "egonet-size",
    "encodings",
    "context-d2c",
    "base-depth",
    "tu",
)


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
    undirected: bool = False
    """Whether an edge and its reverse count as one."""


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
        """The same table with other settings in every run, such as fewer epochs."""
        return replace(
            self,
            rows=tuple(
                tuple(_changed(cell, settings) for cell in r) for r in self.rows
            ),
        )


def table_names() -> list[str]:
    """The ten tables, in the paper's order."""
    return list(ORDER)


@cache
def load_table(name: str) -> PaperTable:
    """One of the paper's tables.

    Raises:
        OptionError: For an unknown name, naming the nearest.

    >>> table = load_table("encodings")
    >>> table.rows[0][0].title, table.rows[0][0].paper
    ('Full / ZINC-12K (MAE)', '0.080 ± 0.001')
    """
    if name not in ORDER:
        near = difflib.get_close_matches(name, ORDER, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise OptionError(
            f"unknown table {name!r}; {hint}There are {', '.join(ORDER)}."
        )
    content = read_yaml(TABLES / f"{name}.yaml")
    columns = [_column(entry) for entry in content["columns"]]
    rows = []
    for row in content["rows"]:
        texts = row.get("paper") or [None] * len(columns)
        pairs = zip(columns, texts, strict=True)
        rows.append(tuple(_cell(column, row, text) for column, text in pairs))
    return PaperTable(
        name,
        content["caption"],
        tuple(content.get("notes", ())),
        tuple(column["title"] for column in columns),
        tuple(rows),
    )


def _column(entry: str | Mapping[str, Any]) -> dict[str, Any]:
    """A column; one shared by several tables is a name, or `from` it with more set."""
    if isinstance(entry, str):
        entry = {"from": entry}
    if "from" not in entry:
        return dict(entry)
    shared = _shared_columns()[entry["from"]]
    settings = {**shared.get("set", {}), **entry.get("set", {})}
    return {**shared, **entry, "set": settings}


def _cell(column: Mapping[str, Any], row: Mapping[str, Any], text: str | None) -> Cell:
    both = {**column, **row}
    style = Style(
        both.get("digits", 0), both.get("percent", False), both.get("suffix", "")
    )
    plan = fact = None
    if "dataset" in both:
        fact = Fact(both["dataset"], both["statistic"], both.get("undirected", False))
    elif not row.get("quoted"):
        plan = _plan(column, row, both)
    return Cell(row["title"], column["title"], text, style, plan, fact)


def _plan(
    column: Mapping[str, Any], row: Mapping[str, Any], both: Mapping[str, Any]
) -> Plan:
    experiment = _experiment(both["experiment"])
    alone = row.get("for", {}).get(column.get("from"), {})
    settings = {**column.get("set", {}), **row.get("set", {}), **alone}
    config = change(experiment.config, settings)
    return Plan(
        experiment.name,
        config,
        config.train.epochs,
        both.get("runs", experiment.runs),
        both.get("folds"),
        both.get("measure", "score"),
    )


def _changed(cell: Cell, settings: Mapping[str, Any]) -> Cell:
    if cell.plan is None:
        return cell
    config = change(cell.config, settings)
    return replace(cell, plan=replace(cell.plan, config=config))


@cache
def _shared_columns() -> Mapping[str, Any]:
    return read_yaml(TABLES / "_columns.yaml")


_experiment = cache(load_experiment)
