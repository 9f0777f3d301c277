"""Do many training runs in parallel on one device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from rich.console import Console

from gnnak.training.launch import Places
from gnnak.training.processes.machine import Machine
from gnnak.training.records.results import Record, check_appendable, environment
from gnnak.training.schedule.estimate import Estimator, epochs_done
from gnnak.training.schedule.job import Job, without_repeats
from gnnak.training.schedule.mps import multi_process_service
from gnnak.training.schedule.pool import Pool, Result
from gnnak.training.schedule.queue import Queue, Task
from gnnak.training.schedule.view import ScheduleView
from gnnak.training.schedule.worker import Training


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
