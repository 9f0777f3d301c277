"""Do many training runs in parallel on one device, and show their progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from gnnak.training.launch import Places
from gnnak.training.processes.machine import Machine
from gnnak.training.records.results import Record, check_appendable, environment
from gnnak.training.schedule.estimate import Estimator, epochs_done
from gnnak.training.schedule.pool import (
    Ended,
    Pool,
    Result,
    Training,
    multi_process_service,
)
from gnnak.training.schedule.queue import (
    Job,
    Queue,
    Task,
    seconds_to_end,
    without_repeats,
)


class ScheduleView:
    """Context manager that shows the running runs, and a line for each ended run.

    Runs that are started again have a line, too.

    Args:
        console: The console to write to. If it is not a terminal, only these lines are
            written.
        total: Number of runs of the schedule.
        workers: Number of worker processes.
        epochs: Returns how many epochs of a run are done, for the live table.
    """

    def __init__(
        self,
        console: Console,
        total: int,
        workers: int,
        epochs: Callable[[Job], int],
    ) -> None:
        self.console, self.total, self.workers = console, total, workers
        self.epochs = epochs
        self.done = self.failed = 0
        self._live = Live(console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> ScheduleView:
        """Start the live table, if the console is a terminal."""
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the live table."""
        self._live.stop()

    def update(self, running: dict[str, tuple[Task, float]], queue: Queue) -> None:
        """Show the running tasks, by worker, each with the time when it started."""
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
        self._live.update(Group(table, self._caption(left)), refresh=True)

    def ended(self, task: Task, outcome: Ended, seconds: float) -> None:
        """Print a line for a run that has ended: its scores or error, and its time."""
        self.failed += outcome.failed
        self.done += not outcome.failed
        word = "failed: " if outcome.failed else ""
        counts = f"[{self.done + self.failed}/{self.total}]"
        text = outcome.text.rstrip(".")
        line = f"{counts} {word}{task.job.title}: {text}, {duration(seconds)}"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def retried(self, task: Task, reason: str) -> None:
        """Print a line for a run that is started again, with the reason."""
        line = f"{task.job.title}: {reason}"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _caption(self, left: list[Task]) -> str:
        end = seconds_to_end(left, self.workers)
        text = f"{self.done} of {self.total} runs done, {self.failed} failed"
        return text if end is None else f"{text}; about {duration(end)} left"


def duration(seconds: float) -> str:
    """Return a number of seconds in words.

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


def estimated_tasks(
    jobs: Sequence[Job],
    records: Sequence[Record],
    places: Places,
    device: str,
    workers: int,
    sizes: Mapping[str, float] | None = None,
) -> list[Task]:
    """Estimate the cost of jobs; jobs that occur twice are listed once.

    Args:
        jobs: The runs.
        records: Records of earlier runs, from which costs are estimated.
        places: The folders; a stopped run in `places.runs` is estimated by its rest.
        device: The name of the device, as in the records.
        workers: Number of runs in parallel.
        sizes: Number of nodes of each data set, by name.
    """
    estimator = Estimator(records, device, workers, sizes)
    tasks = []
    for job in without_repeats(jobs):
        done = epochs_done(places.of(job.config, job.experiment))
        tasks.append(Task(job, estimator(job.config, done)))
    return tasks


def run_schedule(
    tasks: Sequence[Task],
    places: Places,
    machine: Machine,
    workers: int,
    minutes: float | None = None,
    long: bool = False,
    console: Console | None = None,
) -> Result:
    """Do runs with several worker processes, and append the record of each run.

    The longest runs start first or, if there is no time for all runs, the shortest. A
    run starts only if it is expected to end in time,
    and if its memory is expected to be free. On an NVIDIA GPU, kernels of the workers
    run in parallel if its multi-process service (MPS) is installed.

    Args:
        tasks: The runs with their estimates.
        places: The folders of data, runs and results. A stopped run is resumed.
        machine: The device of each run, and options that save memory.
        workers: Number of worker processes, if there are so many runs.
        minutes: Stop after this time; None = when all runs are done. Runs that are then
            unfinished can be resumed.
        long: Whether to start also runs that are not expected to end in time.
        console: Where to show progress; None = nowhere.

    Returns:
        Which runs are done, failed, stopped, or were not started.
    """
    check_appendable(places.records)
    console = console or Console(quiet=True)
    workers = max(1, min(workers, len(tasks)))
    seconds = math.inf if minutes is None else 60 * minutes
    train = Training(places, replace(machine, jobs=workers))

    def epochs(job: Job) -> int:
        return epochs_done(places.of(job.config, job.experiment))

    shared = machine.is_gpu and workers > 1
    service = multi_process_service() if shared else nullcontext(False)
    with service, ScheduleView(console, len(tasks), workers, epochs) as view:
        queue = Queue(tasks, long=long, workers=workers)
        return Pool(queue, workers, train, places.runs, view, seconds).run()


def device_name(machine: Machine) -> str:
    """Return the name of the device that runs use, as it is written to records."""
    return environment(machine.device)["device"]
