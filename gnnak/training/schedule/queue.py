"""The runs of a schedule, and which of them starts next."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from gnnak.training.config.run_config import RunConfig


@dataclass(frozen=True)
class Work:
    """Anything that a worker process of a `Pool` can do; must be picklable."""

    title: str


@dataclass(frozen=True)
class Job(Work):
    experiment: str
    config: RunConfig


def without_repeats(jobs: Sequence[Job]) -> list[Job]:
    first = {(job.experiment, job.config): job for job in reversed(jobs)}
    return [job for job in jobs if first[job.experiment, job.config] is job]


@dataclass(frozen=True)
class Task:
    """A job with its expected cost, and how it is to be run."""

    job: Work
    seconds: float = math.inf
    """The expected seconds that the rest of the run takes; infinite if not known."""
    megabytes: float = 0.0
    tries: int = 0
    """Number of earlier starts of the run that failed."""
    alone: bool = False
    """Whether no other run may use the device at the same time."""

    @property
    def is_known(self) -> bool:
        return self.seconds < math.inf

    def after(self, seconds: float) -> Task:
        return replace(self, seconds=max(0.0, self.seconds - seconds))

    def retry(self, alone: bool = False) -> Task:
        return replace(self, tries=self.tries + 1, alone=alone)


class Queue:
    """The tasks that wait for a worker.

    Tasks of unknown duration start first, and tasks to run `alone` last. Of the others,
    the longest starts first; if time is too short for all, the shortest. A task starts
    only if enough memory is free and, unless `long`, it can end before the deadline.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        megabytes: float | None = None,
        long: bool = False,
        workers: int = 1,
    ) -> None:
        self.waiting: list[Task] = []
        self.megabytes, self.long, self.workers = megabytes, long, workers
        self.add(*tasks)

    def add(self, *tasks: Task) -> None:
        self.waiting += tasks
        self.waiting.sort(key=lambda task: (task.alone, -task.seconds))

    def take(self, running: Collection[Task], seconds: float = math.inf) -> Task | None:
        """Remove and return the task that starts next; None if none may start now."""
        needed = sum(task.seconds for task in self.waiting if task.is_known)
        order = self.waiting
        if not self.long and needed > seconds * self.workers:
            order = sorted(order, key=lambda t: (t.alone, t.is_known, t.seconds))
        for task in order:
            in_time = self.long or not task.is_known or task.seconds <= seconds
            if in_time and self._has_room(task, running):
                self.waiting.remove(task)
                return task
        return None

    def _has_room(self, task: Task, running: Collection[Task]) -> bool:
        if not running:
            return True
        if task.alone or any(other.alone for other in running):
            return False
        used = sum(other.megabytes for other in running)
        return self.megabytes is None or used + task.megabytes <= self.megabytes


def seconds_to_end(tasks: Iterable[Task], workers: int) -> float | None:
    """Return the expected seconds until all tasks are done; None if unknown."""
    lengths = [task.seconds for task in tasks]
    longest = max(lengths, default=0.0)
    return None if math.isinf(longest) else max(sum(lengths) / workers, longest)
