"""The work of `gnnak table --run`: do the runs that have no record yet.

Results are stored as records. A record is a JSON object with the results of one
training run, or with the statistics of a data set.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from gnnak.cli.schedule_run import Schedule
from gnnak.errors import OptionError
from gnnak.report.cells import PaperTable
from gnnak.report.lookup import RunRecords
from gnnak.report.statistics import measure_dataset, read_statistics, unmeasured
from gnnak.report.tables import has_one_of, pending_runs
from gnnak.training.schedule.queue import Job


def check_only(tables: Sequence[PaperTable], only: Sequence[str]) -> None:
    """Check that each text of the option `--only` selects something.

    Raises:
        OptionError: If a text is in no title of a cell and in no name of a data set.
    """
    cells = [cell for table in tables for row in table.rows for cell in row]
    titles = [cell.title for cell in cells]
    titles += [cell.fact.dataset for cell in cells if cell.fact]
    for text in only:
        if not any(has_one_of(title, [text]) for title in titles):
            raise OptionError(
                f"--only got {text!r}, which is in no cell's title; give a part of "
                f'"row / column", such as {titles[0]!r}.'
            )


def find_missing(
    tables: Sequence[PaperTable],
    results: Path,
    seeds: int | None,
    only: Sequence[str],
    folds: int | None = None,
) -> tuple[list[Job], list[str]]:
    """Find the runs and statistics that tables need and that have no record.

    Args:
        tables: The tables.
        results: Folder of the records.
        seeds: Number of seeds; None = as many as in the paper.
        only: Texts to select by: return only runs of table cells whose title contains
            one of them, and data sets whose name contains one; empty = all.
        folds: Number of folds of each cross-validation; None = all.

    Returns:
        The missing runs, and the names of the data sets without statistics.
    """
    records, known = RunRecords.read(results), read_statistics(results)
    jobs = [
        job
        for table in tables
        for job in pending_runs(table, records, seeds, only, folds)
    ]
    missing = [name for table in tables for name in unmeasured(table, known)]
    return jobs, [name for name in dict.fromkeys(missing) if has_one_of(name, only)]


def run_missing(
    jobs: Sequence[Job], datasets: Sequence[str], schedule: Schedule, console: Console
) -> list[str]:
    """Train the missing runs and compute the missing statistics of data sets.

    If a run or a data set fails, the error is printed and the others continue.

    Args:
        jobs: Runs that have no record.
        datasets: Names of data sets that have no statistics record.
        schedule: How the runs are done.
        console: Where progress and errors are shown.

    Returns:
        Titles of the runs and data sets that failed.
    """
    failed = []
    for name in datasets:
        title = f"data set {name}"
        try:
            with console.status(title):
                measure_dataset(name, schedule.places.results)
        except Exception as error:
            line = f"failed: {title}: {error}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
            failed.append(title)
    return failed + [job.title for job in schedule.run(jobs, console).failed]
