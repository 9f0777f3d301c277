"""Find records of runs by config and of data sets by name; summarise several runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, mode, stdev
from typing import Literal

from gnnak.errors import OptionError
from gnnak.training.config.options import change
from gnnak.training.config.run_config import LENGTH, PER_RUN, RunConfig
from gnnak.training.records.results import Record, read_records

STATISTICS = "datasets.jsonl"
"""Name of the file with statistics of data sets, in a results folder."""


class RunRecords:
    """The JSON records of training runs, which can be searched by config.

    A search ignores seed and fold. Options that a record lacks have default values. A
    record with unknown options is never found. `timed` lists runs and benchmarks.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        records = list(records)
        self.timed = [r for r in records if r.get("kind") in ("run", "bench")]
        self._noise = [r for r in records if r.get("kind") == "data-noise"]
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
        """Read the records of runs, benchmarks and data noise in all folders."""
        names = ("runs*.jsonl", "bench.jsonl", "data_noise.jsonl")
        found = [f for each in folders for n in names for f in sorted(each.glob(n))]
        files = {file.resolve(): file for file in found}.values()
        return cls(record for file in files for record in read_records(file))

    @property
    def usual_device(self) -> str:
        devices = [str(record.get("device")) for record in self.records]
        return mode(devices) if devices else ""

    def exact(self, config: RunConfig) -> list[Record]:
        return self._exact.get(config.cell(), [])

    def complete(self, config: RunConfig) -> list[Record]:
        """Return runs with `config`; if none, the longest runs with more epochs."""
        if found := self.exact(config):
            return found
        longer = self.any_length(config, least=config.train.epochs)
        most = max((_epochs(record) for record in longer), default=0)
        return [record for record in longer if _epochs(record) == most]

    def data_noise(self, config: RunConfig) -> float:
        """Return how scores deviate between generated test sets; 0 if not measured.

        If the network was not measured, return the mean over other networks.
        """
        data, model = (config.data.name, config.data.target), config.model.name
        same = [r for r in self._noise if (r["experiment"], r["target"]) == data]
        same = [r for r in same if r["model"] == model] or same
        return fmean(record["deviation"] for record in same) if same else 0.0

    def any_length(self, config: RunConfig, least: int = 0) -> list[Record]:
        """Return runs with `config`, but with any number of epochs from `least` on."""
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
    """Hash a config with and without its `LENGTH` options; None if it is unreadable."""
    try:
        config = change(RunConfig(), record["config"])
    except OptionError:
        return None
    return config.cell(), config.cell(also_without=LENGTH)


def _has_same_rates(record: Record, config: RunConfig) -> bool:
    train, of_record = config.train, record["config"]["train"]
    lengths = [(of_record.get("warm_up", 0), train.warm_up)]
    if train.schedule == "step":
        lengths.append((of_record.get("step", train.step), train.step))
    epochs = _epochs(record), train.epochs
    return all(_is_scaled(length, epochs) for length in lengths)


def _is_scaled(lengths: tuple[int, int], epochs: tuple[int, int]) -> bool:
    """Return whether two runs have equal or, up to rounding, proportional lengths."""
    (one, other), (first, second) = lengths, epochs
    # Lengths are rounded to whole numbers of epochs.
    near = abs(one * second - other * first) < max(epochs) + max(lengths)
    longer = first != second and (one > other) == (first > second)
    return one == other or (near and longer)


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


Measure = Literal["score", "seconds", "memory"]
"""The test score, seconds of a training epoch, or peak memory of training in MB."""


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over the runs of one table cell (model and task)."""

    mean: float | None
    """The mean over the runs; None if the score of every run is undefined."""
    deviation: float | None
    """The sample standard deviation over the runs; None for a single run."""
    runs: int
    note: str = ""
    """A text about missing runs or undefined scores; empty if there are none."""
    lower_is_better: bool = True
    values: tuple[float, ...] = ()
    """The score, seconds or memory of each run, sorted by seed and fold."""
    shortened: bool = False
    """Whether a run had fewer epochs than expected; False for seconds and memory."""
    noise: float = 0.0
    """Standard deviation of scores over several generated test sets; 0 if unknown."""


def summarise(
    records: Sequence[Record],
    measure: Measure = "score",
    *,
    seeds: int | None = None,
    folds: int | None = None,
    epochs: int | None = None,
) -> Summary:
    """Summarise runs that differ only in seed and fold, using each run's newest record.

    Scores are test scores of the best validation epoch; undefined scores are ignored.
    Folds of the protocol `published` have no separate test graphs. As in the GIN paper,
    their score is the validation score at the epoch where the mean over runs is best.
    """
    if not records:
        raise OptionError("no records to summarise; give those of at least one run.")
    latest = {(r["seed"], r.get("fold")): r for r in records}
    runs = sorted(latest, key=lambda run: (run[0], -1 if run[1] is None else run[1]))
    chosen = [latest[run] for run in runs]
    every = _values(chosen, measure)
    values = [value for value in every if value is not None]
    trained, expected = min(r["epochs"] for r in chosen), epochs
    if any(r["config"]["train"].get("early_stop") is not None for r in chosen):
        expected = None
    sources = sorted({str(record.get("source")) for record in chosen})
    notes = []
    if lost := len(every) - len(values):
        notes.append(f"the test score is undefined in {lost} of {len(every)} runs")
    if expected not in (None, trained):
        notes.append(f"trained for {trained} of {expected} epochs")
    notes.append(_missing_runs(chosen, seeds, folds))
    if len(sources) > 1:
        notes.append(f"on graphs from {' and '.join(sources)}")
    return Summary(
        fmean(values) if values else None,
        stdev(values) if len(values) > 1 else None,
        len(values),
        "; ".join(note for note in notes if note),
        measure != "score" or bool(chosen[0]["lower_is_better"]),
        tuple(values),
        measure == "score" and trained < (expected or 0),
    )


def best_mean_epoch(curves: Sequence[Sequence[float]], lower_is_better: bool) -> int:
    """Return the first epoch, from 0, at which the mean of the curves is best."""
    means = [fmean(values) for values in zip(*curves, strict=False)]
    return means.index(min(means) if lower_is_better else max(means))


def _values(records: Sequence[Record], measure: Measure) -> list[float | None]:
    if measure == "seconds":
        seconds = [record["seconds"] for record in records]
        return [each.get("data", 0.0) + each["train"] for each in seconds]
    if measure == "memory":
        return [record["peak_memory_mb"]["train"] for record in records]
    first = records[0]
    if first.get("fold") is None or first["protocol"] != "published":
        return [record["scores"].get("test") for record in records]
    curves = [record["curves"]["validation"] for record in records]
    best = best_mean_epoch(curves, first["lower_is_better"])
    return [curve[best] for curve in curves]


def _missing_runs(
    records: Sequence[Record], seeds: int | None, folds: int | None
) -> str:
    ran_seeds = len({record["seed"] for record in records})
    ran_folds = len({record.get("fold") for record in records})
    notes = []
    if seeds is not None and ran_seeds < seeds:
        notes.append(f"{ran_seeds} of {seeds} seeds")
    if folds is not None and ran_folds < folds:
        notes.append(f"{ran_folds} of {folds} folds")
    elif folds is not None and len(records) < ran_seeds * folds:
        notes.append(f"{len(records)} of {ran_seeds * folds} runs")
    return ", ".join(notes)
