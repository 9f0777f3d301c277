"""The tables of the GNN-AK paper: the printed numbers, and the runs for each cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from math import ceil
from typing import Any

from gnnak.training.config.experiment import CONFIGS, flat, load_experiment, read_yaml
from gnnak.training.config.options import change
from gnnak.training.config.run_config import LENGTH, RunConfig
from gnnak.training.records.lookup import Measure
from gnnak.typing import check_known


@dataclass(frozen=True)
class Style:
    digits: int = 0
    """Digits after the decimal point."""
    percent: bool = False
    """Whether to multiply a number by 100 before it is printed."""
    suffix: str = ""
    """Text to print after a number, such as a percent sign."""

    def number(self, value: float) -> str:
        shown = f"{100 * value if self.percent else value:.{self.digits}f}"
        return shown + self.suffix


@dataclass(frozen=True)
class Plan:
    """The runs over seeds and folds whose mean a table cell shows."""

    experiment: str
    """The experiment (a file in `configs/`) on whose options `config` is based."""
    config: RunConfig
    """The config of all runs; its seed and fold are ignored."""
    epochs: int
    """Number of epochs in the paper; a cell with shorter runs gets a footnote."""
    runs: int
    """Number of seeds: the runs use the seeds 0 to `runs` - 1."""
    folds: int | None
    """Number of folds to run with every seed; None for data without folds."""
    measure: Measure
    """Whether the cell shows the test score, seconds per epoch or peak memory."""


@dataclass(frozen=True)
class Fact:
    dataset: str
    statistic: str
    """`graphs`, `outputs` (classes or tasks), `nodes` or `edges` (means per graph)."""


@dataclass(frozen=True)
class Cell:
    """A table cell: the paper's number, and the runs or statistic for our number."""

    row: str
    column: str
    paper: str | None
    """The paper's number as printed in the paper; None if the paper has no number."""
    style: Style
    plan: Plan | None = None
    """The runs whose mean is our number; None for statistics and quoted results."""
    fact: Fact | None = None
    """The statistic that the cell shows; None if the cell shows no statistic."""

    @property
    def title(self) -> str:
        return f"{self.row} / {self.column}"

    @property
    def config(self) -> RunConfig:
        assert self.plan is not None
        return self.plan.config


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper: the paper's numbers, and the runs that reproduce them."""

    name: str
    """The table's name on the command line, as in `gnnak table simulation`."""
    caption: str
    notes: tuple[str, ...]
    """Notes below the table, needed to compare our numbers with the paper's."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def cells(self) -> Iterator[Cell]:
        """Yield, for each config, the first cell that shows results of its runs."""
        seen = set()
        for cell in (cell for row in self.rows for cell in row):
            if cell.plan is not None and cell.config not in seen:
                seen.add(cell.config)
                yield cell

    def changed(self, settings: Mapping[str, Any]) -> PaperTable:
        listed = [f"{k} = {v}" for k, v in settings.items() if k != "train.epochs"]
        note = f"Not the paper's settings: {', '.join(listed)} in every run of ours."
        rows = tuple(tuple(_changed(cell, settings) for cell in r) for r in self.rows)
        return replace(self, rows=rows, notes=self.notes + ((note,) if listed else ()))

    def shortened(self, factor: float) -> PaperTable:
        rows = tuple(tuple(_changed(cell, {}, factor) for cell in r) for r in self.rows)
        return replace(self, rows=rows)


def _changed(cell: Cell, settings: Mapping[str, Any], shorten: float = 1) -> Cell:
    if cell.plan is None:
        return cell
    options = flat(cell.config.to_dict())
    lengths = {key: max(ceil(options[key] / shorten), 1) for key in LENGTH}
    # Rounded down, the warm-up stays shorter than the training.
    lengths["train.warm_up"] = int(options["train.warm_up"] / shorten)
    config = change(cell.config, lengths | dict(settings))
    return replace(cell, plan=replace(cell.plan, config=config))


TABLES = CONFIGS / "tables"
read_once = cache(read_yaml)
_experiment = cache(load_experiment)
ORDER = (
    "simulation ppgn-sr25 real-world subgraphdrop datasets egonet-size encodings "
    "context-d2c base-depth tu"
)


def table_names() -> list[str]:
    return ORDER.split()


@cache
def load_table(name: str) -> PaperTable:
    check_known("table", name, table_names())
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
    """Return a column's settings, with those that it takes from `_columns.yaml`."""
    if isinstance(entry, str):
        entry = {"from": entry}
    if "from" not in entry:
        return dict(entry)
    shared = read_once(TABLES / "_columns.yaml")[entry["from"]]
    settings = {**shared.get("set", {}), **entry.get("set", {})}
    return {**shared, **entry, "set": settings}


def _cell(column: Mapping[str, Any], row: Mapping[str, Any], text: str | None) -> Cell:
    both = {**column, **row}
    style = Style(**{f.name: both[f.name] for f in fields(Style) if f.name in both})
    plan = fact = None
    if "dataset" in both:
        fact = Fact(both["dataset"], both["statistic"])
    elif not row.get("quoted"):
        plan = _plan(column, row, both)
    return Cell(row["title"], column["title"], text, style, plan, fact)


def _plan(
    column: Mapping[str, Any], row: Mapping[str, Any], both: Mapping[str, Any]
) -> Plan:
    experiment = _experiment(both["experiment"])
    for_column = row.get("for", {}).get(column.get("from", column["title"]), {})
    settings = {**column.get("set", {}), **row.get("set", {}), **for_column}
    config = change(experiment.config, settings)
    return Plan(
        experiment.name,
        config,
        config.train.epochs,
        both.get("runs", experiment.runs),
        both.get("folds"),
        both.get("measure", "score"),
    )
