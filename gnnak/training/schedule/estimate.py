"""Estimate the time and memory of a run from the records of earlier runs.

Records of `gnnak bench`, which measures a few epochs, serve as well. They do not
contain the time of evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from gnnak.errors import OptionError
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.records.results import Record
from gnnak.training.schedule.costs import (
    Cost,
    DeviceCosts,
    any_run,
    cost_of,
    runs_at_once,
    same_base,
    same_cell,
    same_form,
    same_model,
)


@dataclass(frozen=True)
class Estimate:
    """The expected cost of a run."""

    seconds: float
    """Seconds from the start of the run to its record."""
    megabytes: float
    """Peak memory of the device, in MB."""


class Estimator:
    """Estimates runs on one device from the records of earlier runs.

    A run is estimated from the runs that are most like it: those with the same options
    up to seed and fold, otherwise those with the same model on the same data set. If
    there are such runs only on another device, their times are multiplied by how much
    longer runs take here of which both devices have records. Their memory is taken as
    it is.

    Otherwise, the estimate is from runs on this device: those with the same base GNN on
    the same data set, then those with the same base GNN on other data sets. The times
    of the latter are multiplied by how much longer models with other base GNNs take on
    this data set or, if none was run on both, by the number of nodes. Otherwise from
    runs with any base GNN on the same data set, on other data sets, and from all runs
    on the same data set. The estimate is the median over these runs.

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
        """Return the expected cost of a run; None if no earlier run is like it.

        Args:
            config: The options of the run.
            done: Number of epochs that are already done, in a run that is resumed.
        """
        costs = next(filter(None, self._similar(config)), None)
        if costs is None:
            return None
        epochs = max(0, config.train.epochs - done)
        return Estimate(
            median(c.start + epochs * c.epoch for c in costs),
            median(c.megabytes for c in costs),
        )

    def _similar(self, config: RunConfig) -> Iterator[list[Cost]]:
        """Yield the costs of runs that are similar to a run, the most similar first."""
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
