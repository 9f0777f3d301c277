"""The work of `gnnak table --run` and `gnnak sweep`: list and do many runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from gnnak.errors import OptionError, counted
from gnnak.report.cells import PaperTable
from gnnak.report.lookup import RunRecords
from gnnak.report.statistics import (
    dataset_sizes,
    measure_dataset,
    read_statistics,
    unmeasured,
)
from gnnak.report.tables import has_one_of, pending_runs
from gnnak.training.config.options import change
from gnnak.training.config.run_config import PER_RUN, RunConfig
from gnnak.training.launch import Places, find_dataset, folds_of
from gnnak.training.processes.machine import Machine
from gnnak.training.processes.stopping import stoppable
from gnnak.training.records.results import Record
from gnnak.training.records.summary import summarise
from gnnak.training.schedule.pool import Result
from gnnak.training.schedule.queue import Job, Task, grid, seconds_to_end
from gnnak.training.schedule.schedule import (
    device_name,
    duration,
    estimated_tasks,
    run_schedule,
)


@dataclass(frozen=True)
class Schedule:
    """How the runs of a command are done: in which folders, on what, and how long."""

    places: Places
    """The folders of data, runs and results."""
    machine: Machine
    """The device of each run, and options that save memory."""
    jobs: int = 1
    """Number of runs in parallel."""
    minutes: float | None = None
    """Stop after this time; None = when all runs are done."""
    long: bool = False
    """Whether to start also runs that are not expected to end in time."""

    def tasks(self, jobs: Sequence[Job]) -> list[Task]:
        """Return the jobs with their estimates, each run once."""
        records = RunRecords.read(*self.places.all_results).timed
        device = device_name(self.machine)
        sizes = dataset_sizes(read_statistics(self.places.results))
        return estimated_tasks(jobs, records, self.places, device, self.jobs, sizes)

    def run(self, jobs: Sequence[Job], console: Console) -> Result:
        """Do the runs, show progress on a console, and say what is left."""
        tasks = self.tasks(jobs)
        if not tasks:
            return Result()
        with stoppable("give the same command to go on"):
            result = run_schedule(
                tasks,
                self.places,
                self.machine,
                self.jobs,
                self.minutes,
                self.long,
                console,
            )
        told = what_is_left(result)
        if told:
            console.print(told, highlight=False, soft_wrap=True)
        return result

    def show(self, jobs: Sequence[Job], console: Console) -> None:
        """List the runs with their expected time and memory, longest first."""
        tasks = sorted(self.tasks(jobs), key=lambda task: -task.seconds)
        table = Table("run", "expected time", "memory", box=None)
        for task in tasks:
            memory = f"{task.megabytes:,.0f} MB" if task.megabytes else "?"
            table.add_row(task.job.title, duration(task.seconds), memory)
        console.print(table)
        known = [task for task in tasks if task.estimate is not None]
        total = seconds_to_end(known, self.jobs) or 0.0
        unknown = len(tasks) - len(known)
        line = f"{counted(len(tasks), 'run')}, about {duration(total)}"
        line += f", {self.jobs} at once"
        more = (
            f"; the time of {counted(unknown, 'run')} is not known" if unknown else ""
        )
        console.print(f"{line}{more}.", highlight=False, soft_wrap=True)


def what_is_left(result: Result) -> str:
    """Return what to do about runs that were stopped or not started; empty if none."""
    told = []
    waiting = len(result.waiting)
    if result.cut:
        told.append(
            f"time is up: {counted(len(result.cut), 'run')} stopped and {waiting} not "
            "started; give the same command to go on."
        )
    elif waiting:
        told.append(
            f"{counted(waiting, 'run')} not started, because the time that is left is "
            "shorter than expected for them; give more --minutes, or --long to start "
            "them anyway."
        )
    if result.elsewhere:
        told.append(
            f"{counted(len(result.elsewhere), 'run')} left to another process, which "
            "is doing them; give the same command later to see their scores."
        )
    return " ".join(told)


def check_only(tables: Sequence[PaperTable], only: Sequence[str]) -> None:
    """Check that each text of the option `--only` selects something."""
    cells = [cell for table in tables for row in table.rows for cell in row]
    titles = [cell.title for cell in cells]
    titles += [cell.fact.dataset for cell in cells if cell.fact]
    for text in only:
        if not any(has_one_of(title, [text]) for title in titles):
            raise OptionError(
                f"--only got {text!r}, which is in no cell's title; give a part of "
                f'"row / column", such as {titles[0]!r}.'
            )


def find_missing(
    tables: Sequence[PaperTable],
    results: Path,
    seeds: int | None,
    only: Sequence[str],
    folds: int | None = None,
) -> tuple[list[Job], list[str]]:
    """Find the runs and statistics that tables need and that have no record."""
    records, known = RunRecords.read(results), read_statistics(results)
    jobs = [
        job
        for table in tables
        for job in pending_runs(table, records, seeds, only, folds)
    ]
    missing = [name for table in tables for name in unmeasured(table, known)]
    return jobs, [name for name in dict.fromkeys(missing) if has_one_of(name, only)]


def run_missing(
    jobs: Sequence[Job], datasets: Sequence[str], schedule: Schedule, console: Console
) -> list[str]:
    """Train the missing runs and compute the missing statistics of data sets.

    If a run or a data set fails, the error is printed and the others continue.
    """
    failed = []
    for name in datasets:
        title = f"data set {name}"
        try:
            with console.status(title):
                measure_dataset(name, schedule.places.results)
        except Exception as error:
            line = f"failed: {title}: {error}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
            failed.append(title)
    return failed + [job.title for job in schedule.run(jobs, console).failed]


@dataclass(frozen=True)
class Combination:
    """One combination of option values in a sweep, with its runs."""

    values: Mapping[str, Any]
    """The values of the options that the sweep varies, by option."""
    config: RunConfig
    """The options that all runs of the combination share."""
    runs: tuple[tuple[int, int | None], ...]
    """Seed and fold of each run."""
    missing: tuple[Job, ...]
    """The runs that have no record yet."""


@dataclass(frozen=True)
class SweepRow:
    """The scores of one combination, averaged over its runs."""

    values: Mapping[str, Any]
    """The values of the options that the sweep varies, by option."""
    metric: str
    """The metric of the scores; empty if no run has a record."""
    lower_is_better: bool
    """Whether a smaller score is better."""
    validation: float
    """Mean score on the validation graphs; NaN if no run has a record."""
    test: float
    """Mean score on the test graphs; NaN if no run has a defined score."""
    deviation: float | None
    """Standard deviation of the test score; None with fewer than two runs."""
    seconds: float
    """Mean seconds of a training epoch."""
    megabytes: float
    """Largest peak memory of training, in MB."""
    runs: int
    """Number of runs that have a record."""
    planned: int
    """Number of runs of the combination."""

    @property
    def rank(self) -> float:
        """A number by which rows can be sorted, the best validation score first."""
        if math.isnan(self.validation):
            return math.inf
        return self.validation if self.lower_is_better else -self.validation

    @property
    def texts(self) -> list[str]:
        """The numbers of the row as texts, for a printed table."""
        runs = f"{self.runs} of {self.planned}"
        if not self.runs:
            return ["", "", "", "", runs]
        spread = "" if self.deviation is None else f" ± {self.deviation:.4f}"
        return [
            f"{self.validation:.4f}",
            "undefined" if math.isnan(self.test) else f"{self.test:.4f}{spread}",
            f"{self.seconds:.3g}",
            f"{self.megabytes:,.0f}",
            runs,
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the row for JSON; numbers that are not known are null."""
        return {
            key: None if isinstance(value, float) and math.isnan(value) else value
            for key, value in asdict(self).items()
        }


def parse_values(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Parse arguments of the command-line option `--over`.

    Each argument is a text `key=value,value,...`, where the values are YAML.

    >>> parse_values(["model.name=gin,gin-ak+", "train.epochs=10"])
    {'model.name': ['gin', 'gin-ak+'], 'train.epochs': [10]}
    """
    values: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, given = text.partition("=")
        key = key.strip()
        if not equals or not key or not given.strip():
            raise OptionError(
                f"--over got {text!r}; give key=value,value, such as "
                "model.channels=64,128."
            )
        if key in values:
            raise OptionError(f"--over has {key} twice; give all its values at once.")
        if key in PER_RUN:
            raise OptionError(
                f"--over got {key}; use --seeds for seeds, and --set for one fold."
            )
        try:
            values[key] = yaml.safe_load(f"[{given}]")
        except yaml.YAMLError as error:
            raise OptionError(f"--over {key}: {given!r} is not a YAML list.") from error
    return values


def plan_sweep(
    experiment: str,
    config: RunConfig,
    values: Mapping[str, Sequence[Any]],
    seeds: int,
    places: Places,
) -> list[Combination]:
    """Return the combinations of a sweep, each with the runs that have no record."""
    records = RunRecords.read(*places.all_results)
    combinations, datasets = [], {}
    planned = grid(config, values)
    for _, shared in planned:
        shared.check_family()
    for chosen, shared in planned:
        if shared.data not in datasets:  # loading a data set can take seconds
            datasets[shared.data] = find_dataset(shared, places)
        dataset = datasets[shared.data]
        if dataset.info.own_data:
            shared = change(shared, {"data.protocol": dataset.info.protocols[0]})
        done = {(r["seed"], r.get("fold")) for r in records.exact(shared)}
        folds = folds_of(shared, dataset)
        first = config.train.seed
        runs = [
            change(each, {"train.seed": seed})
            for seed in range(first, first + seeds)
            for each in folds
        ]
        missing = [run for run in runs if (run.train.seed, run.data.fold) not in done]
        jobs = tuple(Job(_title(chosen, run), experiment, run) for run in missing)
        pairs = tuple((run.train.seed, run.data.fold) for run in runs)
        combinations.append(Combination(chosen, shared, pairs, jobs))
    return combinations


def sweep_rows(combinations: Sequence[Combination], places: Places) -> list[SweepRow]:
    """Return the scores of all combinations, from the records of their runs."""
    records = RunRecords.read(*places.all_results)
    return [_row(each, records.exact(each.config)) for each in combinations]


def _row(combination: Combination, records: Sequence[Record]) -> SweepRow:
    found = {(r["seed"], r.get("fold")): r for r in records}
    newest = [found[run] for run in combination.runs if run in found]
    planned = len(combination.runs)
    if not newest:
        no, values = math.nan, combination.values
        return SweepRow(values, "", True, no, no, None, no, no, 0, planned)
    tests = summarise(newest)
    return SweepRow(
        combination.values,
        newest[0]["metric"],
        newest[0]["lower_is_better"],
        fmean(record["scores"]["validation"] for record in newest),
        math.nan if tests.mean is None else tests.mean,
        tests.deviation,
        summarise(newest, "seconds").mean or 0.0,
        max(record["peak_memory_mb"]["train"] for record in newest),
        len(newest),
        planned,
    )


def _title(values: Mapping[str, Any], config: RunConfig) -> str:
    words = [f"{key.split('.')[-1]}={value}" for key, value in values.items()]
    words.append(f"seed {config.train.seed}")
    if config.data.fold is not None:
        words.append(f"fold {config.data.fold}")
    return ", ".join([config.data.name, *words])
