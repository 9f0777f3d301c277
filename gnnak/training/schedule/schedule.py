"""Do many training runs in parallel on one device, and show their progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from gnnak.errors import counted
from gnnak.training.launch import Places
from gnnak.training.processes.machine import Machine
from gnnak.training.processes.stopping import stoppable
from gnnak.training.records.lookup import RunRecords, dataset_sizes, read_statistics
from gnnak.training.records.results import check_appendable, environment
from gnnak.training.schedule.cluster import (
    Cluster,
    ClusterPool,
    connected_to_train,
)
from gnnak.training.schedule.estimate import Estimator, epochs_done
from gnnak.training.schedule.pool import (
    Ended,
    Job,
    Pool,
    Queue,
    Result,
    Task,
    Training,
    Watcher,
    multi_process_service,
    seconds_to_end,
    without_repeats,
)


class ScheduleView(Watcher):
    """Prints a line when a run ends; a terminal also shows a table of current runs."""

    def __init__(
        self, console: Console, total: int, workers: int, epochs: Callable[[Job], int]
    ) -> None:
        self.console, self.total, self.workers = console, total, workers
        self.epochs = epochs
        self.done = self.failed = 0
        self._live = Live(console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> ScheduleView:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, running: dict[str, tuple[Task, float]], queue: Queue) -> None:
        if not self._live.is_started:
            return
        now = time.monotonic()
        table = Table("worker", "run", "epoch", "time", "expected", box=None)
        left = list(queue.waiting)
        for name, (task, started) in running.items():
            job, spent = task.job, now - started
            assert isinstance(job, Job)
            epochs = f"{self.epochs(job)} of {job.config.train.epochs}"
            expected = duration(task.seconds)
            table.add_row(name, job.title, epochs, duration(spent), expected)
            left.append(task.after(spent))
        end = seconds_to_end(left, self.workers)
        text = f"{self.done} of {self.total} runs done, {self.failed} failed"
        text += "" if end is None else f"; about {duration(end)} left"
        self._live.update(Group(table, text), refresh=True)

    def ended(self, task: Task, outcome: Ended, seconds: float) -> None:
        self.failed += outcome.failed
        self.done += not outcome.failed
        word = "failed: " if outcome.failed else ""
        counts = f"[{self.done + self.failed}/{self.total}]"
        text = outcome.text.rstrip(".")
        line = f"{counts} {word}{task.job.title}: {text}, {duration(seconds)}"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def retried(self, task: Task, reason: str) -> None:
        line = f"{task.job.title}: {reason}"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """Format a number of seconds for people to read.

    >>> duration(42.4), duration(95), duration(7300), duration(float("inf"))
    ('42 s', '1 min 35 s', '2 h 1 min', '?')
    """
    if seconds == float("inf"):
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@dataclass(frozen=True)
class Schedule:
    """Settings for doing many runs: folders, device, parallel runs and time limit."""

    places: Places
    machine: Machine
    jobs: int = 1
    minutes: float | None = None
    """Stop after this many minutes; if None, when all runs are done."""
    long: bool = False
    """Whether to also start runs that are not expected to end in time."""
    ray: str | None = None
    """Address of a Ray cluster that does the runs; None means this machine."""

    def tasks(self, jobs: Sequence[Job]) -> list[Task]:
        records = RunRecords.read(*self.places.all_results).timed
        sizes = dataset_sizes(read_statistics(self.places.results))
        device = environment(self.machine.device)["device"]
        estimator = Estimator(records, device, self.jobs, sizes)
        return [
            Task(job, *(estimator(job.config, self.epochs_done(job)) or ()))
            for job in without_repeats(jobs)
        ]

    def epochs_done(self, job: Job) -> int:
        return epochs_done(self.places.of(job.config, job.experiment))

    def run(self, jobs: Sequence[Job], console: Console) -> Result:
        """Do the runs, show their progress, and print which runs are left."""
        tasks = self.tasks(jobs)
        if not tasks:
            return Result()
        connection: AbstractContextManager[Cluster | None] = nullcontext()
        if self.ray is not None:
            configs = [job.config for job in jobs]
            connection = connected_to_train(
                self.ray, self.machine, self.places, configs
            )
        # `stoppable` replaces the handlers of signals that Ray installs.
        with connection as cluster, stoppable("give the same command to go on"):
            result = self.run_tasks(tasks, console, cluster)
        told = what_is_left(result)
        if told:
            console.print(told, highlight=False, soft_wrap=True)
        return result

    def run_tasks(
        self, tasks: Sequence[Task], console: Console, cluster: Cluster | None = None
    ) -> Result:
        check_appendable(self.places.records)
        workers = max(1, min(self.jobs, len(tasks)))
        if cluster is not None:
            workers = cluster.slots(self.jobs)
        seconds = math.inf if self.minutes is None else 60 * self.minutes
        train = Training(self.places, replace(self.machine, jobs=workers))
        shared = cluster is None and self.machine.is_gpu and workers > 1
        service = multi_process_service() if shared else nullcontext(False)
        view = ScheduleView(console, len(tasks), workers, self.epochs_done)
        with service, view:
            queue = Queue(tasks, long=self.long, workers=workers)
            if cluster is not None:
                machine = replace(cluster.machine, jobs=self.jobs)
                train = Training(self.places, machine)
                return ClusterPool(cluster, queue, train, view, seconds).run()
            return Pool(queue, workers, train, self.places.runs, view, seconds).run()

    def show(self, jobs: Sequence[Job], console: Console) -> None:
        tasks = sorted(self.tasks(jobs), key=lambda task: -task.seconds)
        table = Table("run", "expected time", "memory", box=None)
        for task in tasks:
            memory = f"{task.megabytes:,.0f} MB" if task.megabytes else "?"
            table.add_row(task.job.title, duration(task.seconds), memory)
        console.print(table)
        known = [task for task in tasks if task.is_known]
        total = seconds_to_end(known, self.jobs) or 0.0
        unknown = len(tasks) - len(known)
        count = counted(len(tasks), "run")
        line = f"{count}, about {duration(total)}, {self.jobs} at once"
        if unknown:
            line += f"; the time of {counted(unknown, 'run')} is not known"
        console.print(f"{line}.", highlight=False, soft_wrap=True)


def what_is_left(result: Result) -> str:
    """Return advice on runs that were stopped or not started; "" if there are none."""
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
