"""Statistics of data sets, such as the number of graphs: compute, store and format."""

from collections.abc import Iterable
from pathlib import Path

from gnnak.datasets import describe_dataset, find_entry, load_dataset
from gnnak.report.cells import Fact, PaperTable, Style
from gnnak.training.records.lookup import STATISTICS
from gnnak.training.records.results import Record, append_record, environment

STAND_INS = ("connected-legacy", "spectral-radius")
"""Two targets of the data set "graph properties" that only reproduce errors in the
published data. The statistics do not count them as tasks."""


def measure_dataset(name: str, results: Path) -> Record:
    """Compute the statistics of a data set, and append them to `datasets.jsonl`."""
    entry = find_entry(name)
    description = describe_dataset(entry, load_dataset(name))
    record = {"kind": "dataset"} | description.as_dict() | environment()
    targets = [target for target in entry.targets if target not in STAND_INS]
    if targets:
        record["outputs"] = len(targets)
    append_record(results / STATISTICS, record)
    return record


def unmeasured(table: PaperTable, known: Iterable[str]) -> list[str]:
    """Return the data sets whose statistics a table needs but that have no record."""
    known = set(known)
    facts = [cell.fact for row in table.rows for cell in row if cell.fact]
    return [n for n in dict.fromkeys(f.dataset for f in facts) if n not in known]


def statistic(fact: Fact, style: Style, record: Record) -> str:
    """Format one statistic of a data set for a table cell.

    >>> record = {"graphs": "10 / 5 / 5", "edges": 19.793}
    >>> statistic(Fact("zinc", "graphs"), Style(), record)
    '10 / 5 / 5'
    >>> statistic(Fact("mutag", "edges"), Style(2), record)
    '19.79'
    """
    value = record[fact.statistic]
    return style.number(value) if isinstance(value, float) else str(value)
