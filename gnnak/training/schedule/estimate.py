"""Estimate the time and memory of a run from the records of earlier runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from gnnak.errors import OptionError
from gnnak.models.factory import parse_name
from gnnak.training.config.options import change
from gnnak.training.config.run_config import LENGTH, RunConfig
from gnnak.training.records.results import Record

START_SECONDS = 20.0
"""Assumed seconds before the first epoch, if a record does not have them."""
SLOWDOWN = 0.3
"""Slowdown by each other run on the device: two others slow a run by 60 %."""
Key = Callable[[RunConfig], Hashable]
"""A function that returns a key of a config; runs with equal keys are similar."""


@dataclass(frozen=True)
class Cost:
    start: float
    """Seconds from the start of the run to its first epoch."""
    epoch: float
    megabytes: float

    def times(self, factor: float) -> Cost:
        return replace(self, epoch=self.epoch * factor)


class DeviceCosts:
    """The costs of runs on one device; `sizes` has the number of nodes per data set."""

    def __init__(self, sizes: Mapping[str, float]) -> None:
        self.sizes = sizes
        # Costs by key function and its value, then by data set.
        self._costs: dict[tuple[Key, Any], dict[str, list[Cost]]] = {}

    def add(self, config: RunConfig, cost: Cost) -> None:
        for key in KEYS:
            by_data = self._costs.setdefault((key, key(config)), {})
            by_data.setdefault(config.data.name, []).append(cost)

    def here(self, key: Key, config: RunConfig) -> list[Cost]:
        """Return costs of runs on the same data with the same `key` as `config`."""
        return self._by_data(key, config).get(config.data.name, [])

    def elsewhere(self, key: Key, config: RunConfig) -> list[Cost]:
        """Return costs of runs with equal `key` on other data, scaled to this data."""
        return [
            cost.times(factor)
            for name, costs in self._by_data(key, config).items()
            for factor in self._factors(name, config)
            for cost in costs
        ]

    def relative_to(self, other: DeviceCosts) -> float | None:
        """Return the ratio of epoch times, this device / `other`; None if unknown."""
        for key in (same_cell, same_model):
            ratios = [
                _epoch(costs) / _epoch(of_other[name])
                for entry, by_data in self._costs.items()
                if entry[0] is key and (of_other := other._costs.get(entry))
                for name, costs in by_data.items()
                if name in of_other
            ]
            if ratios:
                return median(ratios)
        return None

    def _by_data(self, key: Key, config: RunConfig) -> dict[str, list[Cost]]:
        return self._costs.get((key, key(config)), {})

    def _factors(self, name: str, config: RunConfig) -> list[float]:
        """Return [epoch time on `config.data` / on data `name`], or [] if unknown."""
        ratios = []
        for (key, value), by_data in self._costs.items():
            if key is same_base and value[1] == same_form(config):
                here, there = by_data.get(config.data.name), by_data.get(name)
                if here and there:
                    ratios.append(_epoch(here) / _epoch(there))
        if ratios:
            return [median(ratios)]
        sizes = [self.sizes.get(each) for each in (config.data.name, name)]
        return [sizes[0] / sizes[1]] if sizes[0] and sizes[1] else []


def cost_of(record: Record, jobs: int) -> Cost:
    """Return the cost of a recorded run, as if `jobs` runs had shared the device."""
    seconds, memory = record["seconds"], record["peak_memory_mb"]
    slower = (1 + SLOWDOWN * (jobs - 1)) / (1 + SLOWDOWN * (runs_at_once(record) - 1))
    if record["kind"] == "bench":
        return Cost(START_SECONDS, slower * seconds["epoch"], memory or 0.0)
    return Cost(
        seconds.get("start", START_SECONDS),
        slower * seconds["total"] / record["epochs"],
        max((value for value in memory.values() if value), default=0.0),
    )


def runs_at_once(record: Record) -> int:
    return record.get("jobs", 7 if record.get("shared_gpu") else 1)


def _epoch(costs: Iterable[Cost]) -> float:
    return median(cost.epoch for cost in costs)


def same_cell(config: RunConfig) -> Hashable:
    return config.cell(also_without=LENGTH)


def same_model(config: RunConfig) -> Hashable:
    return config.data.protocol, config.model.name


def same_base(config: RunConfig) -> tuple[str, tuple[Hashable, ...]]:
    return parse_name(config.model.name).base, same_form(config)


def same_form(config: RunConfig) -> tuple[Hashable, ...]:
    form = parse_name(config.model.name)
    return form.uplifted, form.sampled


def any_run(config: RunConfig) -> Hashable:
    """Return the same key, None, for every run, so that all runs are similar."""
    return None


KEYS: tuple[Key, ...] = (same_cell, same_model, same_base, same_form, any_run)
"""Functions that tell which runs are similar, from the strictest to the loosest."""


class Estimate(NamedTuple):
    seconds: float
    """Seconds from the start of the run to its record."""
    megabytes: float


class Estimator:
    """Estimates the cost of a run on one device: the median cost of similar runs.

    The keys in `KEYS` are tried in order. Times on another device or data set are
    scaled by the ratio of the epoch times of similar runs on both. If there are none,
    times on another data set are scaled by the numbers of nodes.
    """

    def __init__(
        self,
        records: Iterable[Record],
        device: str,
        jobs: int = 1,
        sizes: Mapping[str, float] | None = None,
    ) -> None:
        newest: dict[tuple[str, str, int], tuple[RunConfig, Record]] = {}
        # Runs come last: they replace benchmarks of the same config.
        for record in sorted(records, key=lambda record: record["kind"] == "run"):
            if record.get("device") and record.get("fast", True):
                try:
                    config = change(RunConfig(), record["config"])
                except OptionError:
                    continue  # a record of an older version, with unknown options
                name = str(record["device"])
                newest[name, config.hash(), runs_at_once(record)] = (config, record)
        devices = {device: DeviceCosts(sizes or {})}
        for (name, *_), (config, record) in newest.items():
            cost = cost_of(record, jobs)
            if cost.epoch > 0:
                devices.setdefault(name, DeviceCosts({})).add(config, cost)
        self._costs = devices.pop(device)
        # For each other device, how much longer epochs take on this one.
        self._others = [
            (other, factor)
            for other in devices.values()
            if (factor := self._costs.relative_to(other))
        ]

    def __call__(self, config: RunConfig, done: int = 0) -> Estimate | None:
        """Estimate the remaining cost of a run after `done` epochs; None if unknown."""
        costs = next(filter(None, self._similar(config)), None)
        if costs is None:
            return None
        epochs = max(0, config.train.epochs - done)
        return Estimate(
            median(c.start + epochs * c.epoch for c in costs),
            median(c.megabytes for c in costs),
        )

    def _similar(self, config: RunConfig) -> Iterator[list[Cost]]:
        for key in (same_cell, same_model):
            yield self._costs.here(key, config)
            yield [
                cost.times(factor)
                for other, factor in self._others
                for cost in other.here(key, config)
            ]
        for key in (same_base, same_form):
            yield self._costs.here(key, config)
            yield self._costs.elsewhere(key, config)
        yield self._costs.here(any_run, config)


def epochs_done(folder: Path) -> int:
    if not (folder / "last.ckpt").exists():
        return 0
    try:
        return max(0, len((folder / "metrics.csv").read_bytes().splitlines()) - 1)
    except OSError:
        return 0
