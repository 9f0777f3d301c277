"""The runs of a schedule, and the worker processes that do them on one device."""

from __future__ import annotations

import gc
import importlib
import math
import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import torch

from gnnak.errors import TrainingError
from gnnak.graphs.readers.files import make_folder
from gnnak.models.bases import is_own_name, module_of
from gnnak.models.factory import parse_name
from gnnak.training.config.run_config import RunConfig
from gnnak.training.launch import Places, run_experiment
from gnnak.training.processes.locks import InUseError
from gnnak.training.processes.machine import Machine
from gnnak.training.processes.stopping import Stopped
from gnnak.training.processes.workers import follow_main, how_ended, main_of_workers


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
    the longest starts first. If the time is too short for all, the shortest starts
    first. A task starts only if enough memory is free. If `long` is False, tasks that
    are expected to end after the deadline do not start.
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


PROGRAM = "nvidia-cuda-mps-control"
"""Program that starts and ends NVIDIA's multi-process service (MPS), to share a GPU."""
FOLDERS = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
"""Environment variables by which processes find MPS."""
WAIT_SECONDS = 20
"""Seconds to wait until the program that starts or ends MPS has finished."""


@contextmanager
def multi_process_service() -> Iterator[bool]:
    """Context manager: start NVIDIA's MPS to share a GPU; yield whether it started."""
    program = shutil.which(PROGRAM)
    before = {name: os.environ[name] for name in FOLDERS if name in os.environ}
    folder = before.get(FOLDERS[0])
    if program is None or (folder and Path(folder, "control").exists()):
        yield False
        return
    with tempfile.TemporaryDirectory(prefix="gnnak-mps-") as folder:
        os.environ |= dict.fromkeys(FOLDERS, folder)
        started = _call([program, "-d"])
        try:
            yield started
        finally:
            if started:
                _call([program], "quit\n")
            for name in FOLDERS:
                del os.environ[name]
            os.environ.update(before)


def _call(command: list[str], text: str = "") -> bool:
    try:
        done = subprocess.run(
            command,
            input=text,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=WAIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@dataclass(frozen=True)
class Ended:
    """The message that a worker sends when a run has ended."""

    text: str
    """The score of the run, or the reason why it failed."""
    failed: bool = False
    out_of_memory: bool = False
    """Whether the run failed because the GPU had too little memory."""
    elsewhere: bool = False
    """Whether the run was not started because another process is doing it."""


@dataclass(frozen=True)
class Training:
    """A callable that does a run and appends its record; a stopped run is resumed."""

    places: Places
    machine: Machine

    def __call__(self, job: Job) -> str:
        import_base(job.config)
        (record,) = run_experiment(
            [job.config],
            job.experiment,
            self.places,
            self.machine,
            resume=True,
            compare=False,
        )
        score = record["scores"]["test"]
        shown = "undefined" if score is None else f"{score:.4g}"
        return f"test {record['metric']} {shown}"


def import_base(config: RunConfig) -> None:
    """Import the module of the base GNN of a run if it is the user's own."""
    base = parse_name(config.model.name).base
    if is_own_name(base):
        importlib.import_module(module_of(base))


def work(
    connection: Connection, train: Callable[[Any], str], threads: int, log: Path
) -> None:
    """Main loop of a worker: do the jobs from `connection` until None arrives.

    First, the worker sends the free memory of the GPU in MB; None without a GPU.
    """
    follow_main()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which the pool stops runs
    torch.set_num_threads(threads)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        gpu = torch.cuda.is_available()
        connection.send(torch.cuda.mem_get_info()[0] / 1e6 if gpu else None)
        while (job := connection.recv()) is not None:
            connection.send(do_job(train, job))
    except (EOFError, BrokenPipeError, Stopped):
        return


def do_job(train: Callable[[Any], str], job: Work) -> Ended:
    """Do a job. Return errors as text, because a traceback would keep tensors alive."""
    try:
        return Ended(train(job))
    except InUseError:
        return Ended("another process is doing this run", elsewhere=True)
    except Exception as error:
        lines = str(error).strip().splitlines()
        text = lines[-1] if lines else type(error).__name__
        oom = isinstance(error, torch.OutOfMemoryError)
        return Ended(lines[0] if oom else text, failed=True, out_of_memory=oom)
    finally:
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()


TRIES = 2
"""Largest number of starts of a run: it is started again if its worker dies."""
CONTEXT_MB = 700.0
"""Memory in MB that each worker process takes on a GPU in addition to its tensors."""
SHARE = 0.9
"""Largest fraction of a GPU's free memory that parallel runs are expected to use."""
STOP_SECONDS = 10
"""Seconds to wait until a worker has ended its step and written a checkpoint."""
RUN_ALONE = "the GPU had too little memory; queued again, to run alone"
"""Why a run is started again after it ran out of memory."""
POLL_SECONDS = 0.5
"""Largest number of seconds between two updates of the screen."""


class Watcher:
    """Base class of objects that show the progress of a schedule; shows nothing."""

    def update(self, running: dict[str, tuple[Task, float]], queue: Queue) -> None:
        """Show progress; `running` maps each worker to its task and start time."""

    def ended(self, task: Task, outcome: Ended, seconds: float) -> None:
        """Show that a run has ended; `seconds` is how long it ran."""

    def retried(self, task: Task, reason: str) -> None:
        """Show that a run is started again, and why."""


@dataclass
class Result:
    done: list[Work] = field(default_factory=list)
    failed: list[Work] = field(default_factory=list)
    cut: list[Work] = field(default_factory=list)
    """Runs that were stopped when time was up; they can be resumed."""
    waiting: list[Work] = field(default_factory=list)
    """Runs that were not started, because they would not have ended in time."""
    elsewhere: list[Work] = field(default_factory=list)
    """Runs that were not started, because another process is doing them."""

    def add(self, job: Work, outcome: Ended) -> None:
        found = self.failed if outcome.failed else self.done
        (self.elsewhere if outcome.elsewhere else found).append(job)


@dataclass
class _Worker:
    name: str
    process: SpawnProcess
    connection: Connection
    task: Task | None = None
    started: float = 0.0
    is_ready: bool = False

    @property
    def is_idle(self) -> bool:
        return self.is_ready and self.task is None


class Pool:
    """Worker processes that do the tasks of a queue, until `seconds` have passed."""

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
        self._threads = torch.get_num_threads()
        if not os.environ.get("OMP_NUM_THREADS"):
            self._threads = max(1, self._threads // workers)
        self._count = workers
        self._workers: list[_Worker] = []

    @main_of_workers()
    def run(self) -> Result:
        try:
            self._workers = [self._start(f"{i + 1}") for i in range(self._count)]
            while time.monotonic() < self.end:
                self._hand_out()
                if all(worker.is_idle for worker in self._workers):
                    break
                running = {w.name: (w.task, w.started) for w in self._workers if w.task}
                self.watcher.update(running, self.queue)
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
            if isinstance(message, Ended):
                self._finish(worker, message)
            else:
                self._admit(worker, message)

    def _admit(self, worker: _Worker, free: float | None) -> None:
        worker.is_ready = True
        if free is not None and self.queue.megabytes is None:
            self.queue.megabytes = SHARE * free - CONTEXT_MB * self._count

    def _finish(self, worker: _Worker, outcome: Ended) -> None:
        task, worker.task = worker.task, None
        assert task is not None
        # Other runs may have used the memory: queue the run again, to run alone.
        if outcome.out_of_memory and self._count > 1 and not task.alone:
            self.queue.add(task.retry(alone=True))
            self.watcher.retried(task, RUN_ALONE)
            return
        self.result.add(task.job, outcome)
        self.watcher.ended(task, outcome, time.monotonic() - worker.started)

    def _replace(self, worker: _Worker) -> _Worker:
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

    def _stop(self) -> None:
        for worker in self._workers:
            if worker.task is None:
                with suppress(OSError):
                    worker.connection.send(None)
            else:
                worker.process.terminate()
        for worker in self._workers:
            worker.process.join(timeout=STOP_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()
