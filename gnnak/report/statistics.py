"""Statistics of data sets: measured once, kept as records, printed from them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gnnak.report.cells import Fact, PaperTable, Style
from gnnak.training.results import Record, append_record, environment, read_records

if TYPE_CHECKING:
    from gnnak.datasets.record import Dataset

FILE = "datasets.jsonl"
LEGACY = "legacy"
"""Marks targets that stand for another one."""


def describe_dataset(dataset: Dataset) -> Record:
    """Graphs of each part, mean nodes, mean directed edges, and what is predicted."""
    store = dataset.store
    graphs = [len(store)]
    if dataset.split is not None:
        graphs = torch.bincount(dataset.split, minlength=3).tolist()
    return {
        "kind": "dataset",
        "dataset": dataset.info.name,
        "source": dataset.info.source,
        "outputs": dataset.info.num_outputs,
        "graphs": graphs,
        "nodes": float(store.num_nodes.double().mean()),
        "edges": float(store.num_edges.double().mean()),
    }


def measure_dataset(name: str, results: Path) -> Record:
    """Load a data set, describe it, and append the record to those of the folder."""
    datasets: Any = importlib.import_module("gnnak.datasets")
    record = describe_dataset(datasets.load_dataset(name)) | environment()
    targets = [t for t in datasets.find_entry(name).targets if LEGACY not in t]
    if targets:
        record["outputs"] = len(targets)
    append_record(results / FILE, record)
    return record


def read_statistics(results: Path) -> dict[str, Record]:
    """The newest record of every data set."""
    records = read_records(results / FILE)
    return {r["dataset"]: r for r in records if r.get("kind") == "dataset"}


def unmeasured(table: PaperTable, known: Iterable[str]) -> list[str]:
    """The data sets of a table that have no record."""
    known = set(known)
    facts = [cell.fact for row in table.rows for cell in row if cell.fact]
    return [n for n in dict.fromkeys(f.dataset for f in facts) if n not in known]


def statistic(fact: Fact, style: Style, record: Record) -> str:
    """One statistic as printed.

    >>> record = {"graphs": [10, 5, 5], "edges": 39.58}
    >>> statistic(Fact("zinc", "graphs"), Style(), record)
    '10 / 5 / 5'
    >>> statistic(Fact("mutag", "edges", undirected=True), Style(2), record)
    '19.79'
    """
    value = record[fact.statistic]
    if isinstance(value, list):
        return " / ".join(str(part) for part in value)
    if isinstance(value, int):
        return str(value)
    if fact.undirected and fact.statistic == "edges":
        value /= 2
    return style.number(value)
