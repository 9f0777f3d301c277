"""A worker process of a schedule: it takes run after run.

Libraries are imported and kernels compiled once per worker, not once per run.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gnnak.training.launch import Places, run_experiment
from gnnak.training.processes.locks import InUseError
from gnnak.training.processes.machine import Machine
from gnnak.training.processes.workers import follow_main

if TYPE_CHECKING:
    from gnnak.training.schedule.job import Job, Work


@dataclass(frozen=True)
class Ready:
    """Sent by a worker when it has started."""

    device: str
    """The name of the device, as in records."""
    megabytes: float | None
    """Memory of the GPU that is free when the worker starts; None on a CPU."""


@dataclass(frozen=True)
class Ended:
    """Sent by a worker when a run has ended."""

    text: str
    """The score of the run, or the reason why it failed."""
    failed: bool = False
    """Whether the run failed."""
    out_of_memory: bool = False
    """Whether it failed because the GPU had too little memory."""
    elsewhere: bool = False
    """Whether another process is doing the same run, so that it was not started."""


@dataclass(frozen=True)
class Training:
    """Trains one run and appends its record; a stopped run is resumed."""

    places: Places
    """The folders of data, runs and results."""
    machine: Machine
    """The device of each run, and options that save memory."""

    def __call__(self, job: Job) -> str:
        """Train one run; return its test score as text."""
        (record,) = run_experiment(
            [job.config], job.experiment, self.places, self.machine, resume=True
        )
        score = record["scores"]["test"]
        shown = "undefined" if score is None else f"{score:.4g}"
        return f"test {record['metric']} {shown}"


def work(
    connection: Connection, train: Callable[[Any], str], threads: int, log: Path
) -> None:
    """Do the jobs that arrive on a connection, until it is closed or None arrives.

    Args:
        connection: The connection to the main process. The worker sends `Ready`, then
            one `Ended` per job.
        train: Does one job and returns the text to show.
        threads: Number of CPU threads of this worker.
        log: The file for everything that this process prints.
    """
    follow_main()
    torch.set_num_threads(threads)
    _print_to(log)
    try:
        connection.send(_ready())
        while (job := connection.recv()) is not None:
            connection.send(_outcome(train, job))
            _free_memory()
    except (EOFError, BrokenPipeError):
        return


def _outcome(train: Callable[[Any], str], job: Work) -> Ended:
    """Do a job, and describe how it ended in one line.

    The exception itself is not returned, because its traceback would keep tensors in
    memory.
    """
    try:
        return Ended(train(job))
    except InUseError:
        return Ended("another process is doing this run", elsewhere=True)
    except Exception as error:
        lines = str(error).strip().splitlines()
        text = lines[-1] if lines else type(error).__name__
        oom = isinstance(error, torch.OutOfMemoryError)
        return Ended(lines[0] if oom else text, failed=True, out_of_memory=oom)


def _ready() -> Ready:
    from gnnak.training.records.results import environment

    if not torch.cuda.is_available():
        return Ready(environment()["device"], None)
    free, _ = torch.cuda.mem_get_info()
    return Ready(environment("cuda")["device"], free / 1e6)


def _free_memory() -> None:
    """Return the memory of the last run to the GPU, for the other workers."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _print_to(log: Path) -> None:
    """Append the output of this process to a file: only the main process prints."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
