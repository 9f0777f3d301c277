"""Runs that a table lacks, one after the other or side by side."""

import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gnnak.report.pending import PendingRun
from gnnak.report.statistics import measure_dataset
from gnnak.training.launch import Places, run_experiment
from gnnak.training.machine import Machine

Job = tuple[str, Callable[[], object]]
"""What it is called, and what makes it."""
_RUNNING: set[subprocess.Popen] = set()


def run_pending(
    runs: list[PendingRun],
    datasets: list[str],
    places: Places,
    machine: Machine,
    jobs: int,
) -> list[str]:
    """Make all of them; a failure is told and the rest go on.

    Args:
        runs: Runs that have no record.
        datasets: Data sets that have not been measured.
        places: Where data, runs and results are.
        machine: Devices and memory of each run.
        jobs: How many runs at a time, each in a process of its own if several.

    Returns:
        What failed, as titles.
    """
    work: list[Job] = [
        (f"data set {name}", partial(measure_dataset, name, places.results))
        for name in datasets
    ]
    make = run_cell if jobs == 1 else run_as_command
    work += [(run.title, partial(make, run, places, machine)) for run in runs]
    console, failed = Console(stderr=True), []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("running", total=len(work))
        with closing(_outcomes(work, jobs)) as outcomes:
            for title, error in outcomes:
                progress.update(task, advance=1, description=title[-60:])
                if error is not None:
                    failed.append(title)
                    told = f"failed: {title}: {error}"
                    console.print(told, markup=False, highlight=False, soft_wrap=True)
    return failed


def run_cell(run: PendingRun, places: Places, machine: Machine) -> None:
    """Make one run in this process; its record is appended to the results folder.

    A run that was begun earlier and not finished is gone on with.
    """
    run_experiment([run.config], run.experiment, places, machine, resume=True)


def run_as_command(run: PendingRun, places: Places, machine: Machine) -> None:
    """Make one run in a process of its own.

    Raises:
        RuntimeError: With the last line that it said, if it failed.
    """
    command = [sys.executable, "-m", "gnnak.cli", "train", run.experiment]
    for setting in run.settings():
        command += ["--set", setting]
    command += ["--results", str(places.results), "--runs", str(places.runs)]
    command += ["--accelerator", machine.accelerator, "--resume"]
    if places.data is not None:
        command += ["--data-dir", str(places.data)]
    if machine.recompute:
        command += ["--recompute"]
    if not machine.fast:
        command += ["--plain"]
    if machine.max_copies is not None:
        command += ["--max-copies", str(machine.max_copies)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        _RUNNING.add(process)
        _, said = process.communicate()
        _RUNNING.discard(process)
    if process.returncode:
        raise RuntimeError(said or f"exit code {process.returncode}")


def _outcomes(work: Iterable[Job], jobs: int) -> Generator[tuple[str, str | None]]:
    """Title and failure of each piece of work, as they end."""
    if jobs == 1:
        for title, make in work:
            yield title, _tried(make)
        return
    with ThreadPoolExecutor(jobs) as pool:
        titles = {pool.submit(_tried, make): title for title, make in work}
        try:
            for done in as_completed(titles):
                yield titles[done], done.result()
        except BaseException:
            # Stopped: what runs is stopped, too, and can be gone on with.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(_RUNNING):
                process.terminate()
            raise


def _tried(make: Callable[[], object]) -> str | None:
    """What went wrong, in a line; the error itself would keep its tensors."""
    try:
        make()
    except Exception as error:
        lines = str(error).strip().splitlines()
        return lines[-1] if lines else type(error).__name__
    return None
