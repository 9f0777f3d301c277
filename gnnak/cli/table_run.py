"""The work of `gnnak table --run`: train the models that have no record yet.

A record is the JSON object with the results of one training run, or with the statistics
of a data set.
"""

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
"""A title for the progress bar, and the function that does the job."""


def find_missing(
    table: PaperTable, results: Path, seeds: int | None, only: str
) -> tuple[list[PendingRun], list[str]]:
    """Find the runs and statistics that a table needs and that have no record.

    Args:
        table: The table.
        results: Folder of the records.
        seeds: Number of seeds; None = as many as in the paper.
        only: Return only runs of cells whose title contains this text, and data sets
            whose name contains it.

    Returns:
        The runs without a record, and the data sets without a statistics record.
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
    """Do the missing runs and measure the missing data sets.

    If one fails, its error is printed, and the others continue.

    Args:
        runs: Runs that have no record.
        datasets: Names of data sets that have no statistics record.
        places: Folders of data, runs and results.
        machine: Device of each run, and options that save memory.
        jobs: Number of runs in parallel; if more than 1, each run is a child process.

    Returns:
        Titles of the runs and data sets that failed.
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
        machine: Device of the run, and options that save memory.
        children: Set of running child processes. The child process is added to it, and
            removed at its end, so that the caller can terminate it.

    Raises:
        RuntimeError: If the child process failed; the message is its stderr.
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
    """Run `work`, with `jobs` jobs in parallel; yield title and error of each job.

    The error is None if the job succeeded. If this function is interrupted, it
    terminates the child processes in `children`.
    """
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
            # The command was interrupted. Terminate the child processes; a later
            # command can resume their runs.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(children):
                process.terminate()
            raise


def _error_of(job: Callable[[], object]) -> str | None:
    """Do a job; return the last line of its error message, or None if it succeeds.

    The exception itself is not returned, because its traceback would keep tensors in
    memory.
    """
    try:
        job()
    except Exception as error:
        lines = str(error).strip().splitlines()
        return lines[-1] if lines else type(error).__name__
    return None
