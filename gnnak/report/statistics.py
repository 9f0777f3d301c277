"""Statistics of data sets: measure them, store them as records, format them."""

from collections.abc import Iterable
from pathlib import Path

from gnnak.datasets import describe_dataset, find_entry, load_dataset
from gnnak.report.cells import Fact, PaperTable, Style
from gnnak.training.records.results import (
    Record,
    append_record,
    environment,
    read_records,
)

FILE = "datasets.jsonl"
STAND_INS = ("connected-legacy", "spectral-radius")
"""Targets that replace another target in the published data; they are not counted."""


def measure_dataset(name: str, results: Path) -> Record:
    """Load a data set, measure it, and append a record to the results folder."""
    entry = find_entry(name)
    description = describe_dataset(entry, load_dataset(name))
    record = {"kind": "dataset"} | description.as_dict() | environment()
    targets = [target for target in entry.targets if target not in STAND_INS]
    if targets:
        record["outputs"] = len(targets)
    append_record(results / FILE, record)
    return record


def read_statistics(results: Path) -> dict[str, Record]:
    """Return the newest record of every data set, by name."""
    records = read_records(results / FILE)
    return {r["name"]: r for r in records if r.get("kind") == "dataset"}


def unmeasured(table: PaperTable, known: Iterable[str]) -> list[str]:
    """Return the data sets of a table that have no record.

    Args:
        table: The table.
        known: Names of data sets that have a record.
    """
    known = set(known)
    facts = [cell.fact for row in table.rows for cell in row if cell.fact]
    return [n for n in dict.fromkeys(f.dataset for f in facts) if n not in known]


def statistic(fact: Fact, style: Style, record: Record) -> str:
    """Format one statistic of a data set.

    >>> record = {"graphs": "10 / 5 / 5", "edges": 19.793}
    >>> statistic(Fact("zinc", "graphs"), Style(), record)
    '10 / 5 / 5'
    >>> statistic(Fact("mutag", "edges"), Style(2), record)
    '19.79'
    """
    value = record[fact.statistic]
    return style.number(value) if isinstance(value, float) else str(value)
