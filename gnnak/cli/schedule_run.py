"""Run or list the jobs of `gnnak table --run` and `gnnak sweep`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from gnnak.errors import counted
from gnnak.report.lookup import RunRecords
from gnnak.report.statistics import dataset_sizes, read_statistics
from gnnak.training.launch import Places
from gnnak.training.processes.machine import Machine
from gnnak.training.processes.stopping import stoppable
from gnnak.training.schedule.pool import Result
from gnnak.training.schedule.queue import Job, Task, seconds_to_end
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
