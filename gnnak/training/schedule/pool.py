"""Worker processes that do the runs of a schedule in parallel.

Written by hand because `concurrent.futures` gives up all jobs if one worker is killed.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Protocol

from gnnak.errors import TrainingError
from gnnak.graphs.readers.files import make_folder
from gnnak.training.processes.workers import how_ended, main_of_workers
from gnnak.training.schedule.job import Work
from gnnak.training.schedule.queue import Queue, Task
from gnnak.training.schedule.worker import Ended, Ready, work

TRIES = 2
"""How often a run is started if its worker process is killed."""
CONTEXT_MB = 700.0
"""Memory in MB that each worker process takes on a GPU in addition to its tensors."""
SHARE = 0.9
"""The share of the free memory of a GPU that runs may take, by their estimates."""
POLL_SECONDS = 0.5
"""Longest time between two updates of the screen."""


class Watcher(Protocol):
    """Shows the progress of a schedule."""

    def update(self, running: dict[str, tuple[Task, float]], queue: Queue) -> None:
        """Show the running tasks, by worker, each with the time when it started."""

    def ended(self, task: Task, outcome: Ended, seconds: float) -> None:
        """Show that a run has ended, after so many seconds."""

    def retried(self, task: Task, reason: str) -> None:
        """Show that a run is started again, and why."""


@dataclass
class Result:
    """How the runs of a schedule ended."""

    done: list[Work] = field(default_factory=list)
    """Runs that have a record now."""
    failed: list[Work] = field(default_factory=list)
    """Runs that failed."""
    cut: list[Work] = field(default_factory=list)
    """Runs that were stopped when time was up; they can be resumed."""
    waiting: list[Work] = field(default_factory=list)
    """Runs that were not started, because they would not have ended in time."""
    elsewhere: list[Work] = field(default_factory=list)
    """Runs that were not started, because another process is doing them."""


@dataclass
class _Worker:
    """A worker process, as the main process sees it."""

    name: str
    process: SpawnProcess
    connection: Connection
    task: Task | None = None
    started: float = 0.0
    is_ready: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether the worker has started and waits for a task."""
        return self.is_ready and self.task is None


class Pool:
    """A fixed number of worker processes that take the tasks of a queue.

    Args:
        queue: The tasks.
        workers: Number of worker processes.
        train: Does one job (a `Work` of the queue) and returns a line to show; must be
            picklable.
        logs: Folder for the output of the workers, one file each.
        watcher: Shows the progress.
        seconds: Seconds until the schedule ends; runs that are not done by then are
            stopped.
    """

    def __init__(
        self,
        queue: Queue,
        workers: int,
        train: Callable[[Any], str],
        logs: Path,
        watcher: Watcher,
        seconds: float = math.inf,
    ) -> None:
        self.queue, self.train, self.watcher = queue, train, watcher
        self.logs = make_folder(logs)
        self.end = time.monotonic() + seconds
        self.result = Result()
        self._context = multiprocessing.get_context("spawn")
        self._threads = max(1, (os.cpu_count() or 1) // workers)
        self._count = workers
        self._workers: list[_Worker] = []

    def run(self) -> Result:
        """Run all tasks in worker processes; return how each of them ended.

        Raises:
            TrainingError: If the worker processes cannot start.
        """
        with main_of_workers():
            return self._run()

    def _run(self) -> Result:
        try:
            self._workers = [self._start(f"{i + 1}") for i in range(self._count)]
            while time.monotonic() < self.end:
                self._hand_out()
                if all(worker.is_idle for worker in self._workers):
                    break
                self._show()
                self._receive()
            self.result.cut = [w.task.job for w in self._workers if w.task]
            self.result.waiting = [task.job for task in self.queue.waiting]
            return self.result
        finally:
            self._stop()

    def _start(self, name: str) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=work,
            args=(theirs, self.train, self._threads, self.logs / f"worker-{name}.log"),
            daemon=True,
        )
        process.start()
        theirs.close()
        return _Worker(name, process, ours)

    def _hand_out(self) -> None:
        """Give a task to every idle worker, as far as tasks may start now."""
        for worker in self._workers:
            if worker.is_idle:
                running = [other.task for other in self._workers if other.task]
                worker.task = self.queue.take(running, self.end - time.monotonic())
                if worker.task is None:
                    return
                worker.started = time.monotonic()
                with suppress(OSError):  # a dead worker is noticed by `_receive`
                    worker.connection.send(worker.task.job)

    def _receive(self) -> None:
        """Wait for messages of workers, and replace workers that were killed."""
        left = max(0.0, min(POLL_SECONDS, self.end - time.monotonic()))
        ready = wait([worker.connection for worker in self._workers], left)
        for place, worker in enumerate(self._workers):
            if worker.connection not in ready:
                continue
            try:
                message = worker.connection.recv()
            except (EOFError, OSError):
                self._workers[place] = self._replace(worker)
                continue
            if isinstance(message, Ready):
                self._admit(worker, message)
            else:
                self._finish(worker, message)

    def _admit(self, worker: _Worker, message: Ready) -> None:
        worker.is_ready = True
        if message.megabytes is not None and self.queue.megabytes is None:
            for_workers = CONTEXT_MB * self._count
            self.queue.megabytes = SHARE * message.megabytes - for_workers

    def _finish(self, worker: _Worker, outcome: Ended) -> None:
        task, worker.task = worker.task, None
        assert task is not None
        # Another run may have shared the memory and ended since.
        if outcome.out_of_memory and self._count > 1 and not task.alone:
            self.queue.add(task.retry(alone=True))
            why = "the GPU had too little memory; queued again, to run alone"
            self.watcher.retried(task, why)
            return
        found = self.result.failed if outcome.failed else self.result.done
        (self.result.elsewhere if outcome.elsewhere else found).append(task.job)
        self.watcher.ended(task, outcome, time.monotonic() - worker.started)

    def _replace(self, worker: _Worker) -> _Worker:
        """Start a new worker for one that died, and queue its run for a second try."""
        worker.process.join(timeout=10)
        ended = how_ended(worker.process.exitcode)
        task, log = worker.task, self.logs / f"worker-{worker.name}.log"
        if task is not None and task.tries + 1 < TRIES:
            self.queue.add(task.retry())
            why = f"its process {ended}; queued again, to be resumed"
            self.watcher.retried(task, why)
        elif task is not None:
            text = f"its process {ended}; see {log}"
            self.result.failed.append(task.job)
            failed = Ended(text, failed=True)
            self.watcher.ended(task, failed, time.monotonic() - worker.started)
        elif not worker.is_ready:
            raise TrainingError(f"a worker process {ended} when it started; see {log}.")
        worker.connection.close()
        return self._start(worker.name)

    def _show(self) -> None:
        self.watcher.update(
            {w.name: (w.task, w.started) for w in self._workers if w.task}, self.queue
        )

    def _stop(self) -> None:
        """End all worker processes; runs continue later from their checkpoints."""
        for worker in self._workers:
            if worker.task is None:
                with suppress(OSError):
                    worker.connection.send(None)
            else:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join(timeout=10)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()
