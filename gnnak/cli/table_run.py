"""The work of `gnnak table --run`: run what a table lacks, in parallel if wanted."""

import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gnnak.report.cells import PaperTable
from gnnak.report.lookup import RunRecords
from gnnak.report.pending import PendingRun, pending_runs
from gnnak.report.statistics import measure_dataset, read_statistics, unmeasured
from gnnak.training.launch import Places, run_experiment
from gnnak.training.processes.machine import Machine

Job = tuple[str, Callable[[], object]]
"""A title, and the function that does the job."""


def find_missing(
    table: PaperTable, results: Path, seeds: int | None, only: str
) -> tuple[list[PendingRun], list[str]]:
    """Find what a table needs and no record in the results folder provides.

    Args:
        table: The table.
        results: Folder of the records.
        seeds: Number of seeds; None = as many as the paper's.
        only: Text that the title of a cell, or the name of a data set, must contain.

    Returns:
        The runs without a record, and the data sets that have not been measured.
    """
    runs = pending_runs(table, RunRecords.read(results), seeds, only)
    missing = unmeasured(table, read_statistics(results))
    return runs, [name for name in missing if only.lower() in name]


def run_missing(
    runs: list[PendingRun],
    datasets: list[str],
    places: Places,
    machine: Machine,
    jobs: int,
) -> list[str]:
    """Run everything; print failures and continue with the rest.

    Args:
        runs: Runs that have no record.
        datasets: Data sets that have not been measured.
        places: Where data, runs and results are.
        machine: Devices and memory of each run.
        jobs: Number of runs in parallel; if more than 1, each is a child process.

    Returns:
        Titles of the jobs that failed.
    """
    work: list[Job] = [
        (f"data set {name}", partial(measure_dataset, name, places.results))
        for name in datasets
    ]
    children: set[subprocess.Popen] = set()
    in_child = partial(run_in_child_process, children=children)
    run_one = run_here if jobs == 1 else in_child
    work += [(run.title, partial(run_one, run, places, machine)) for run in runs]
    console, failed = Console(stderr=True), []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("running", total=len(work))
        with closing(_outcomes(work, jobs, children)) as outcomes:
            for title, error in outcomes:
                progress.update(task, advance=1, description=title[-60:])
                if error is not None:
                    failed.append(title)
                    line = f"failed: {title}: {error}"
                    console.print(line, markup=False, highlight=False, soft_wrap=True)
    return failed


def run_here(run: PendingRun, places: Places, machine: Machine) -> None:
    """Train one run in this process and append its record to the results folder.

    A run that was interrupted earlier is resumed from its checkpoint.
    """
    run_experiment([run.config], run.experiment, places, machine, resume=True)


def run_in_child_process(
    run: PendingRun, places: Places, machine: Machine, children: set[subprocess.Popen]
) -> None:
    """Train one run with `gnnak train` in a child process.

    Args:
        run: The run.
        places: Folders of data, runs and results.
        machine: Device and memory.
        children: Gets the child process as long as it runs.

    Raises:
        RuntimeError: If it failed, with what it wrote to stderr.
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
        children.add(process)
        _, stderr = process.communicate()
        children.discard(process)
    if process.returncode:
        raise RuntimeError(stderr or f"exit code {process.returncode}")


def _outcomes(
    work: Iterable[Job], jobs: int, children: set[subprocess.Popen]
) -> Generator[tuple[str, str | None]]:
    """Yield the title of each job when it ends, and its error or None."""
    if jobs == 1:
        for title, job in work:
            yield title, _error_of(job)
        return
    with ThreadPoolExecutor(jobs) as pool:
        titles = {pool.submit(_error_of, job): title for title, job in work}
        try:
            for done in as_completed(titles):
                yield titles[done], done.result()
        except BaseException:
            # Interrupted: terminate the child processes, whose runs can be resumed.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(children):
                process.terminate()
            raise


def _error_of(job: Callable[[], object]) -> str | None:
    """Run a job; return the last line of its error, or None.

    The text is returned, not the exception: its traceback would keep tensors alive.
    """
    try:
        job()
    except Exception as error:
        lines = str(error).strip().splitlines()
        return lines[-1] if lines else type(error).__name__
    return None
