"""Load the ten tables of the GNN-AK paper from the YAML files in `configs/tables`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from gnnak.report.cells import Cell, Fact, PaperTable, Plan, Style
from gnnak.training.config.experiment import (
    CONFIGS,
    load_experiment,
    read_yaml,
)
from gnnak.training.config.options import change
from gnnak.typing import check_known

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


def table_names() -> list[str]:
    """Return the names of the paper's ten tables, in the paper's order."""
    return list(ORDER)


@cache
def load_table(name: str) -> PaperTable:
    """Load one of the paper's tables, with the numbers that the paper reports.

    Args:
        name: Name of the table, one of `table_names()`.

    Raises:
        OptionError: If no table has this name; the message names the closest one.

    >>> table = load_table("encodings")
    >>> table.rows[0][0].title, table.rows[0][0].paper
    ('Full / ZINC-12K (MAE)', '0.080 ± 0.001')
    """
    check_known("table", name, ORDER)
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
    """Return the full description of a table column, given its entry in a YAML file.

    The entry may refer to a column in `_columns.yaml`, which several tables share. Then
    the settings in the entry override the settings of the shared column.
    """
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
        fact = Fact(both["dataset"], both["statistic"])
    elif not row.get("quoted"):
        plan = _plan(column, row, both)
    return Cell(row["title"], column["title"], text, style, plan, fact)


def _plan(
    column: Mapping[str, Any], row: Mapping[str, Any], both: Mapping[str, Any]
) -> Plan:
    """Return the training runs needed for a table cell, given its column and row.

    Args:
        column: Description of the column.
        row: Description of the row; its settings override those of the column.
        both: `column` and `row` merged into one mapping.
    """
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


@cache
def _shared_columns() -> Mapping[str, Any]:
    return read_yaml(TABLES / "_columns.yaml")


_experiment = cache(load_experiment)
