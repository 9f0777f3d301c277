"""Find records of training runs by the config of the run, and of data sets by name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from gnnak.errors import OptionError
from gnnak.training.config.options import change
from gnnak.training.config.run_config import LENGTH, PER_RUN, RunConfig
from gnnak.training.records.results import Record, read_records

STATISTICS = "datasets.jsonl"
"""Name of the file with statistics of data sets, in a results folder."""


class RunRecords:
    """The JSON records of training runs, which can be searched by config.

    A search ignores seed and fold. Options that a record lacks have their default
    values. Records with unknown options are never found. `timed` also has benchmarks.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self.timed = [r for r in records if r.get("kind") in ("run", "bench")]
        self.records = [r for r in self.timed if r["kind"] == "run"]
        self._exact: dict[str, list[Record]] = {}
        self._any_length: dict[str, list[Record]] = {}
        keys: dict[str, tuple[str, str] | None] = {}
        for record in self.records:
            text = _shared_settings(record)
            if text not in keys:
                keys[text] = _keys(record)
            key = keys[text]
            if key is not None:
                self._exact.setdefault(key[0], []).append(record)
                self._any_length.setdefault(key[1], []).append(record)

    @classmethod
    def read(cls, *folders: Path) -> RunRecords:
        """Read `runs*.jsonl` and `bench.jsonl` in all folders that exist."""
        names = ("runs*.jsonl", "bench.jsonl")
        found = [f for each in folders for n in names for f in sorted(each.glob(n))]
        files = {file.resolve(): file for file in found}.values()
        return cls(record for file in files for record in read_records(file))

    @property
    def usual_device(self) -> str:
        devices = Counter(str(record.get("device")) for record in self.records)
        return devices.most_common(1)[0][0] if devices else ""

    def exact(self, config: RunConfig) -> list[Record]:
        return self._exact.get(config.cell(), [])

    def complete(self, config: RunConfig) -> list[Record]:
        """Return the runs of this config, or if none, the longest with more epochs."""
        if found := self.exact(config):
            return found
        longer = self.any_length(config, least=config.train.epochs)
        most = max((_epochs(record) for record in longer), default=0)
        return [record for record in longer if _epochs(record) == most]

    def any_length(self, config: RunConfig, least: int = 0) -> list[Record]:
        """Return runs of at least `least` epochs, otherwise with this config."""
        found = self._any_length.get(config.cell(also_without=LENGTH), [])
        same = [record for record in found if _has_same_rates(record, config)]
        return [record for record in same if _epochs(record) >= least]


def _shared_settings(record: Record) -> str:
    """Return the config of a run as JSON text, without the seed and the fold."""
    options = {group: dict(values) for group, values in record["config"].items()}
    for name in PER_RUN:
        group, key = name.split(".")
        options.get(group, {}).pop(key, None)
    return json.dumps(options, sort_keys=True)


def _keys(record: Record) -> tuple[str, str] | None:
    """Return hashes of a config with and without `LENGTH`; None if outdated."""
    try:
        config = change(RunConfig(), record["config"])
    except OptionError:
        return None
    return config.cell(), config.cell(also_without=LENGTH)


def _has_same_rates(record: Record, config: RunConfig) -> bool:
    train, step = config.train, record["config"]["train"].get("step")
    if train.schedule != "step" or step in (None, train.step):
        return True
    epochs = _epochs(record)
    # Lengths are rounded up to whole numbers of epochs.
    rounding = max(epochs, train.epochs) + max(step, train.step)
    difference = abs(step * train.epochs - train.step * epochs)
    return epochs != train.epochs and difference < rounding


def _epochs(record: Record) -> int:
    return record["config"]["train"]["epochs"]


def read_statistics(results: Path) -> dict[str, Record]:
    records = read_records(results / STATISTICS)
    return {r["name"]: r for r in records if r.get("kind") == "dataset"}


def dataset_sizes(statistics: Mapping[str, Record]) -> dict[str, float]:
    """Return the total number of nodes of each data set.

    >>> dataset_sizes({"zinc": {"graphs": "10 / 5 / 5", "nodes": 2.5}})
    {'zinc': 50.0}
    """
    return {
        name: record["nodes"] * sum(int(part) for part in record["graphs"].split("/"))
        for name, record in statistics.items()
    }
