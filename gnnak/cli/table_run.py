"""The work of `gnnak table --run`: train models whose results are missing.

Results are stored as records. A record is a JSON object with the results of one
training run, or with the statistics of a data set.
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
"""The title of a job for the progress bar, and the function that does the job."""


def find_missing(
    table: PaperTable, results: Path, seeds: int | None, only: str
) -> tuple[list[PendingRun], list[str]]:
    """Find the training runs and data set statistics that a table still needs.

    These are the ones that have no record (JSON object) in the results folder.

    Args:
        table: One of the paper's tables.
        results: The results folder.
        seeds: Number of seeds; None = as many as in the paper.
        only: Text to select by. Return only runs for table cells whose title contains
            this text, and data sets whose name contains this text.

    Returns:
        The missing runs, and the names of the data sets without statistics.
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
    """Train the missing runs and compute the missing statistics of data sets.

    If a run or a data set fails, the error is printed and the others continue.

    Args:
        runs: The missing training runs.
        datasets: Names of the data sets whose statistics are missing.
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
    """Train one run in this process and append its results to the results folder.

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
        children: Set of running child processes. The new child process is in this set
            while it runs, so that the caller can terminate it.

    Raises:
        RuntimeError: If the child process fails; the message is its stderr.
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
    """Do all jobs in `work`, `jobs` of them in parallel; yield their titles and errors.

    The error of a job that succeeded is None. If this function is interrupted, it
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
