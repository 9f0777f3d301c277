"""Estimate the time and memory of a run from the records of earlier runs.

Records of `gnnak bench`, which measures a few epochs, serve as well. They do not
contain the time of evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from gnnak.errors import OptionError
from gnnak.models.factory import parse_name
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
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
    up to seed and fold, otherwise those with the same model on the same data set,
    otherwise those with a similar model on the same data set, otherwise those with a
    similar model on other data sets, in proportion to the number of nodes, otherwise
    those with any model on the same data set. The estimate is the median over these
    runs.

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
        self._costs: dict[Hashable, list[_Cost]] = {}
        self._scaled: dict[Hashable, list[_Cost]] = {}
        self._on_data: dict[str, list[_Cost]] = {}
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
        costs, scale = self._similar(config)
        if not costs:
            return None
        epochs = max(0, config.train.epochs - done)
        return Estimate(
            median(c.start + epochs * scale * c.epoch for c in costs),
            median(c.megabytes for c in costs),
        )

    def _add(self, config: RunConfig, cost: _Cost) -> None:
        self._on_data.setdefault(config.data.name, []).append(cost)
        for kind in LIKENESSES:
            self._costs.setdefault((kind, kind(config)), []).append(cost)
        if size := self.sizes.get(config.data.name):
            scaled = _Cost(cost.start, cost.epoch / size, cost.megabytes)
            for kind in ELSEWHERE:
                self._scaled.setdefault((kind, kind(config)), []).append(scaled)

    def _similar(self, config: RunConfig) -> tuple[list[_Cost], float]:
        """Return the costs of similar runs, and the factor for their epochs."""
        for kind in LIKENESSES:
            if found := self._costs.get((kind, kind(config))):
                return found, 1.0
        if size := self.sizes.get(config.data.name):
            for kind in ELSEWHERE:
                if found := self._scaled.get((kind, kind(config))):
                    return found, size
        return self._on_data.get(config.data.name, []), 1.0


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


def _form(config: RunConfig) -> Hashable:
    form = parse_name(config.model.name)
    return form.uplifted, form.sampled


def _base(config: RunConfig) -> Hashable:
    return parse_name(config.model.name).base, _form(config)


LIKENESSES: tuple[Callable[[RunConfig], Hashable], ...] = (
    lambda config: config.cell(also_without=("train.epochs",)),
    lambda config: (config.data.name, config.data.protocol, config.model.name),
    lambda config: (config.data.name, _base(config)),
    lambda config: (config.data.name, _form(config)),
)
"""When two runs on the same data set are alike, strictest first: if the function has
the same value for both configs."""
ELSEWHERE: tuple[Callable[[RunConfig], Hashable], ...] = (_base, _form)
"""When runs on different data sets are alike, strictest first."""
