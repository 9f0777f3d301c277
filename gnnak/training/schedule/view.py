"""Show the progress of a schedule: a live table, or lines if there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from gnnak.training.schedule.job import Job
from gnnak.training.schedule.queue import Queue, Task, seconds_to_end
from gnnak.training.schedule.worker import Ended


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
