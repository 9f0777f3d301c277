"""Group runs by task and setting, for the first section of the HTML report."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from gnnak.errors import GnnakError
from gnnak.training.config.experiment import flat, read_only
from gnnak.training.config.options import change
from gnnak.training.config.run_config import PER_RUN, RunConfig
from gnnak.training.records.results import Record
from gnnak.training.records.summary import Summary, summarise

TASK = ("data.name", "data.target", "data.own.path", "data.own.targets")
SAME = (*PER_RUN, "data.seed", "data.own.labels", "data.own.smiles")
"""Options that are ignored when runs are grouped into settings."""
HEADER = ["Validation", "Test", "Epochs", "s / epoch", "Total", "Peak MB", "Runs"]


@dataclass(frozen=True)
class Setting:
    """Runs whose options are equal except for seed and fold."""

    name: str
    """The model, then the options in which the settings of the task differ."""
    records: tuple[Record, ...]
    """The newest record of each seed and fold, oldest first."""

    @property
    def test(self) -> Summary:
        return summarise(self.records)

    @property
    def validation(self) -> float | None:
        scores = [record["scores"]["validation"] for record in self.records]
        known = [score for score in scores if score is not None]
        return fmean(known) if known else None

    @property
    def seconds(self) -> float:
        return summarise(self.records, "seconds").mean or 0.0

    @property
    def megabytes(self) -> float:
        return max(record["peak_memory_mb"]["train"] for record in self.records)

    @property
    def newest(self) -> Record:
        return self.records[-1]

    @property
    def texts(self) -> tuple[str, ...]:
        test, validation, newest = self.test, self.validation, self.newest
        spread = "" if test.deviation is None else f" ± {test.deviation:.2g}"
        tested = any("test" in record["scores"] for record in self.records)
        unknown = "undefined" if tested else ""
        total = sum(record["seconds"].get("total", 0.0) for record in self.records)
        return (
            "undefined" if validation is None else f"{validation:.4g}",
            unknown if test.mean is None else f"{test.mean:.4g}{spread}",
            f"best {newest['best_epoch'] + 1} of {newest['epochs']}",
            f"{self.seconds:.3g}",
            _duration(total),
            f"{self.megabytes:,.0f}",
            str(len(self.records)),
        )


@dataclass(frozen=True)
class Task:
    """A data set with its targets and metric, and the settings that were trained."""

    title: str
    own_data: bool
    """Whether the data are the user's own, not a data set of gnnak."""
    metric: str
    lower_is_better: bool
    settings: tuple[Setting, ...]
    """The settings, sorted by validation score, the best first."""

    @property
    def runs(self) -> int:
        return sum(len(setting.records) for setting in self.settings)


def group_tasks(records: Iterable[Record]) -> list[Task]:
    groups: dict[tuple[Any, ...], list[tuple[Record, dict[str, Any]]]] = {}
    for record in records:
        options = _options(record)
        key = (*(str(options.get(name)) for name in TASK), record["metric"])
        # Removing and inserting a key moves it to the end.
        groups[key] = [*groups.pop(key, []), (record, options)]
    tasks = [_task(group) for group in reversed(groups.values())]
    return sorted(tasks, key=lambda task: not task.own_data)


def _task(group: Sequence[tuple[Record, dict[str, Any]]]) -> Task:
    record, options = group[-1]
    targets = options.get("data.own.targets") or [options.get("data.target")]
    named = ", ".join(str(target) for target in targets if target)
    lower = bool(record["lower_is_better"])

    def rank(setting: Setting) -> tuple[bool, float]:
        score = setting.validation
        return score is None, (score or 0.0) * (1 if lower else -1)

    return Task(
        f"{options['data.name']}: {named}" if named else str(options["data.name"]),
        options.get("data.own.path") is not None,
        record["metric"],
        lower,
        tuple(sorted(_settings(group), key=rank)),
    )


def _settings(group: Sequence[tuple[Record, dict[str, Any]]]) -> list[Setting]:
    names = dict.fromkeys(name for _, options in group for name in options)
    differing = []
    for name in names:
        # A model that ignores an option does not have it; data options may be absent.
        missing = name.startswith("model.")
        having = [o for _, o in group if name in o or not missing]
        if name not in SAME and len({str(o.get(name)) for o in having}) > 1:
            differing.append(name)
    settings: dict[str, dict[tuple[Any, ...], Record]] = {}
    for record, options in group:
        words = [
            f"{name.split('.')[-1]}={options.get(name)}"
            for name in differing
            if name != "model.name" and options.get(name) is not None
        ]
        runs = settings.setdefault(", ".join([options["model.name"], *words]), {})
        key = (record["seed"], record.get("fold"))
        runs.pop(key, None)
        runs[key] = record
    return [Setting(name, tuple(runs.values())) for name, runs in settings.items()]


def _options(record: Record) -> dict[str, Any]:
    """Return a run's options by dotted name, without those that the model ignores."""
    try:
        return read_only(change(RunConfig(), record["config"]))
    except GnnakError:
        return flat(record["config"])


def _duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours.

    >>> _duration(75.0), _duration(9000.0)
    ('75 s', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"
