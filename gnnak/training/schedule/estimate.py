"""Estimate the time and memory of a run from the records of earlier runs.

Records of `gnnak bench`, which measures a few epochs, serve as well. They do not
contain the time of evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from gnnak.errors import OptionError
from gnnak.models.factory import parse_name
from gnnak.training.config.options import change
from gnnak.training.config.run_config import LENGTH, RunConfig
from gnnak.training.records.results import Record

START_SECONDS = 20.0
"""Seconds from the start of a run to its first epoch, for records that do not say it:
loading the data, extracting subgraphs, compiling kernels."""
SLOWDOWN = 0.3
"""How much slower a run becomes with each further run on the same device, as a share of
its time alone. Used only if all earlier runs shared the device with fewer or more
runs."""


@dataclass(frozen=True)
class Estimate:
    """The expected cost of a run."""

    seconds: float
    """Seconds from the start of the run to its record."""
    megabytes: float
    """Peak memory of the device, in MB."""


@dataclass(frozen=True)
class _Cost:
    """The measured cost of one earlier run, per epoch."""

    start: float
    epoch: float
    megabytes: float


class Estimator:
    """Estimates runs on one device, from the records of earlier runs on this device.

    A run is estimated from the runs that are most like it: those with the same options
    up to seed and fold, otherwise those with the same model on the same data set, then
    with the same base GNN. Otherwise from runs with the same base GNN on other data
    sets: their times are multiplied by how much longer models with other base GNNs
    take on this data set or, if none was run on both, by the number of nodes. Otherwise
    from runs with any base GNN on the same data set, on other data sets, and from all
    runs on the same data set. The estimate is the median over these runs.

    Args:
        records: Records of runs and of `gnnak bench`.
        device: The name of the device, as in the records.
        jobs: Number of runs that share the device.
        sizes: Number of nodes of the data sets, by name. Without it, a run on a data
            set that no record has cannot be estimated.
    """

    def __init__(
        self,
        records: Iterable[Record],
        device: str,
        jobs: int = 1,
        sizes: Mapping[str, float] | None = None,
    ) -> None:
        self.sizes = sizes or {}
        # The costs of runs by data set, for each likeness and its value.
        self._costs: dict[tuple[Kind, Any], dict[str, list[_Cost]]] = {}
        newest: dict[tuple[str, int], tuple[RunConfig, Record]] = {}
        # Runs come last: they replace benchmarks of the same config.
        for record in sorted(records, key=lambda record: record["kind"] == "run"):
            if record.get("device") == device and record.get("fast", True):
                try:
                    config = change(RunConfig(), record["config"])
                except OptionError:
                    continue  # a record of an older version, with unknown options
                newest[config.hash(), runs_at_once(record)] = (config, record)
        for config, record in newest.values():
            self._add(config, _cost(record, jobs))

    def __call__(self, config: RunConfig, done: int = 0) -> Estimate | None:
        """Return the expected cost of a run; None if no earlier run is like it.

        Args:
            config: The options of the run.
            done: Number of epochs that are already done, in a run that is resumed.
        """
        costs = self._similar(config)
        if not costs:
            return None
        epochs = max(0, config.train.epochs - done)
        return Estimate(
            median(c.start + epochs * c.epoch for c in costs),
            median(c.megabytes for c in costs),
        )

    def _add(self, config: RunConfig, cost: _Cost) -> None:
        for kind in KINDS:
            by_data = self._costs.setdefault((kind, kind(config)), {})
            by_data.setdefault(config.data.name, []).append(cost)

    def _similar(self, config: RunConfig) -> list[_Cost]:
        """Return the costs of similar runs, as if they had run on this data set."""
        for kind, elsewhere in SEARCH:
            by_data = self._costs.get((kind, kind(config)), {})
            if not elsewhere:
                found = by_data.get(config.data.name, [])
            else:
                found = [
                    replace(cost, epoch=cost.epoch * factor)
                    for name, costs in by_data.items()
                    for factor in self._factors(name, config)
                    for cost in costs
                ]
            if found:
                return found
        return []

    def _factors(self, name: str, config: RunConfig) -> list[float]:
        """Return how much longer epochs take on the data set of a run than on another.

        Args:
            name: The other data set.
            config: The options of the run.

        Returns:
            One factor, or none if it is unknown.
        """
        ratios = []
        for (kind, value), by_data in self._costs.items():
            if kind is _base and value[1] == _form(config):
                here, there = by_data.get(config.data.name), by_data.get(name)
                if here and there:
                    ratios.append(_epoch(here) / _epoch(there))
        if ratios:
            return [median(ratios)]
        sizes = [self.sizes.get(each) for each in (config.data.name, name)]
        return [sizes[0] / sizes[1]] if sizes[0] and sizes[1] else []


def runs_at_once(record: Record) -> int:
    """Return how many runs shared the device while a run was recorded.

    Some records say only that the device was shared; it was shared by 7 runs then.
    """
    return record.get("jobs", 7 if record.get("shared_gpu") else 1)


def epochs_done(folder: Path) -> int:
    """Return the number of epochs after which a stopped run would continue.

    Args:
        folder: The folder of the run. Its `metrics.csv` has one line per epoch and is
            written together with the checkpoint.
    """
    if not (folder / "last.ckpt").exists():
        return 0
    try:
        return max(0, len((folder / "metrics.csv").read_bytes().splitlines()) - 1)
    except OSError:
        return 0


def _cost(record: Record, jobs: int) -> _Cost:
    """Return the cost of a recorded run, as if `jobs` runs had shared the device.

    Args:
        record: The record of a run or of `gnnak bench`.
        jobs: Number of runs that share the device.
    """
    seconds, memory = record["seconds"], record["peak_memory_mb"]
    slower = (1 + SLOWDOWN * (jobs - 1)) / (1 + SLOWDOWN * (runs_at_once(record) - 1))
    if record["kind"] == "bench":
        return _Cost(START_SECONDS, slower * seconds["epoch"], memory or 0.0)
    return _Cost(
        seconds.get("start", START_SECONDS),
        slower * seconds["total"] / record["epochs"],
        max((value for value in memory.values() if value), default=0.0),
    )


def _epoch(costs: Iterable[_Cost]) -> float:
    """Return the median time of an epoch, in seconds."""
    return median(cost.epoch for cost in costs)


def _cell(config: RunConfig) -> Hashable:
    """Return the same value for runs that differ in seed, fold and length only."""
    return config.cell(also_without=LENGTH)


def _model(config: RunConfig) -> Hashable:
    return config.data.protocol, config.model.name


def _base(config: RunConfig) -> tuple[str, tuple[Hashable, ...]]:
    """Return the base GNN of a run, and its form."""
    return parse_name(config.model.name).base, _form(config)


def _form(config: RunConfig) -> tuple[Hashable, ...]:
    """Return how a run uses its base GNN: uplifted or not, with SubgraphDrop or not."""
    form = parse_name(config.model.name)
    return form.uplifted, form.sampled


def _any(config: RunConfig) -> Hashable:
    """Return the same value for all runs."""
    return None


Kind = Callable[[RunConfig], Hashable]
SEARCH: tuple[tuple[Kind, bool], ...] = (
    (_cell, False),
    (_model, False),
    (_base, False),
    (_base, True),
    (_form, False),
    (_form, True),
    (_any, False),
)
"""Which runs are like a run, strictest first: those for which a function has the same
value, either on the same data set or, if the second entry is True, on other ones."""
KINDS: tuple[Kind, ...] = tuple(dict.fromkeys(kind for kind, _ in SEARCH))
