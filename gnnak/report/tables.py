"""The paper's tables with our own results in every cell, read from JSON records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from gnnak.report.cells import Cell, PaperTable, Plan
from gnnak.report.lookup import RunRecords
from gnnak.report.reasons import SHORTENED, reason_of, remarks_on
from gnnak.report.statistics import dataset_sizes, read_statistics, statistic
from gnnak.report.verdict import SIGNS, Counts, Verdict, compare, count
from gnnak.training.records.results import Record
from gnnak.training.records.summary import Summary
from gnnak.training.schedule.estimate import Estimator

MARKS = ("†", "‡", "§", "¶")
"""Signs of footnotes; from the fifth footnote on, they are doubled."""
LEGEND = (
    "Ours, and in brackets the paper's. ▲ better, ≈ within, ▼ worse than the paper by "
    "more than two of its deviations (5 % where it gives none); ▲ also where the "
    "paper's run was out of memory (OOM)."
)
NOT_RUN = "[n min]: not run; one seed would take about n minutes, alone on one {}."


@dataclass(frozen=True)
class Filled:
    """A table cell with the paper's number and the number that we measured."""

    cell: Cell
    """The table cell, with the paper's number."""
    ours: str = ""
    """The number that we measured, as printed; empty if we have none for this cell."""
    summary: Summary | None = None
    """Mean and standard deviation over our runs, and number of runs. None if there are
    no runs yet, or if the cell shows a statistic of a data set."""
    mark: str = ""
    """Sign of the cell's footnote; empty if the cell has no footnote."""
    minutes: float | None = None
    """How long the runs of one seed would take, if the cell was not run; None if that
    is not known."""

    @property
    def verdict(self) -> Verdict | None:
        """How our number compares with the paper's; None if one of them is missing."""
        return None if self.summary is None else compare(self.cell, self.summary)

    @property
    def sign(self) -> str:
        """The sign of the verdict; empty if there is no verdict."""
        return SIGNS[self.verdict] if self.verdict else ""

    @property
    def reason(self) -> str | None:
        """Why our number is worse than the paper's; None if not worse or not known."""
        return None if self.summary is None else reason_of(self.cell, self.summary)

    @property
    def text(self) -> str:
        """Text of the cell: our number, followed by the paper's number in brackets."""
        paper = f"({self.cell.paper})" if self.cell.paper else ""
        parts = [f"{self.ours}{self.mark}" or self.expected, self.sign, paper]
        return " ".join(part for part in parts if part)

    @property
    def expected(self) -> str:
        """The expected time of a cell that was not run, such as "[8 min]"."""
        if self.minutes is None:
            return ""
        return f"[{max(1, round(self.minutes))} min]"

    def as_dict(self) -> dict[str, Any]:
        """Return titles, numbers and footnote of the cell as a dict for JSON or CSV."""
        found = self.summary
        return {
            "row": self.cell.row,
            "column": self.cell.column,
            "ours": self.ours,
            "mean": None if found is None else found.mean,
            "deviation": None if found is None else found.deviation,
            "runs": 0 if found is None else found.runs,
            "paper": self.cell.paper or "",
            "note": "" if found is None else found.note,
            "verdict": self.verdict or "",
            "minutes": self.minutes,
        }


@dataclass(frozen=True)
class FilledTable:
    """One of the paper's tables, with the paper's numbers and our numbers."""

    table: PaperTable
    """The table with the paper's numbers only."""
    rows: tuple[tuple[Filled, ...], ...]
    """The cells of each row, with the paper's numbers and our numbers."""
    footnotes: tuple[tuple[str, str], ...]
    """Sign and text of every footnote, such as ("†", "1 of 3 seeds")."""

    device: str = ""
    """The device for which the time of missing runs is estimated."""

    @property
    def counts(self) -> Counts:
        """How many cells were run, and how they compare with the paper's."""
        cells = [cell for row in self.rows for cell in row if cell.cell.plan]
        reasons = [cell.reason for cell in cells if cell.reason is not None]
        found = count((bool(cell.ours), cell.verdict) for cell in cells)
        shortened = reasons.count(SHORTENED)
        explained = len(reasons) - shortened
        return replace(found, shortened=shortened, explained=explained)

    @property
    def header(self) -> list[str]:
        """The header row: an empty first cell, then the titles of the columns."""
        return ["", *self.table.columns]

    @property
    def body(self) -> list[list[str]]:
        """The rows as text: each has the row's title, then the texts of its cells."""
        return [[row[0].cell.row, *(c.text for c in row)] for row in self.rows]

    @property
    def remarks(self) -> list[str]:
        """The lines to print below the table.

        These are the footnotes, the legend, why some of our numbers are worse than the
        paper's, and general notes.
        """
        signed = [f"{mark} {note}." for mark, note in self.footnotes]
        has_times = any(cell.expected for row in self.rows for cell in row)
        times = [NOT_RUN.format(self.device)] if has_times else []
        cells = [cell for row in self.rows for cell in row]
        worse = remarks_on((c.cell, c.summary) for c in cells if c.summary is not None)
        return [*signed, LEGEND, *times, *worse, *self.table.notes]


def fill_tables(
    tables: Iterable[PaperTable],
    records: RunRecords,
    statistics: Mapping[str, Record] | None = None,
    device: str | None = None,
) -> list[FilledTable]:
    """Add our numbers to tables of the paper.

    Args:
        tables: The tables with the paper's numbers.
        records: Records of training runs.
        statistics: Statistics records of data sets, by name of the data set.
        device: Estimate how long missing runs would take on this device; None = the
            device of most records.
    """
    known, on = statistics or {}, device or records.usual_device

    @cache
    def estimator() -> Estimator:
        """Return the estimator, which takes long to build and is seldom needed."""
        return Estimator(records.timed, on, sizes=dataset_sizes(known))

    filled = []
    for table in tables:
        marks: dict[str, str] = {}
        rows = tuple(
            tuple(_fill(cell, records, known, marks, estimator) for cell in row)
            for row in table.rows
        )
        notes = tuple((mark, note) for note, mark in marks.items())
        filled.append(FilledTable(table, rows, notes, on))
    return filled


def fill_from_folder(tables: Iterable[PaperTable], results: Path) -> list[FilledTable]:
    """Add our numbers, read from a results folder, to tables of the paper."""
    return fill_tables(tables, RunRecords.read(results), read_statistics(results))


def _fill(
    cell: Cell,
    records: RunRecords,
    statistics: Mapping[str, Record],
    marks: dict[str, str],
    estimator: Callable[[], Estimator],
) -> Filled:
    """Add our number to one table cell.

    Args:
        cell: The table cell, with the paper's number.
        records: Records of our training runs.
        statistics: The statistics of data sets, by name of the data set.
        marks: The sign of every footnote so far, by text of the footnote. If the cell
            needs a new footnote, it is added here.
        estimator: Returns the estimator of how long the runs of a cell without our
            number would take.
    """
    if cell.fact is not None and cell.fact.dataset in statistics:
        record = statistics[cell.fact.dataset]
        return Filled(cell, statistic(cell.fact, cell.style, record))
    found = None if cell.plan is None else records.summary(cell.plan)
    if found is None:
        return Filled(cell, minutes=_minutes(cell.plan, estimator))
    mark = ""
    if found.note:
        mark = marks.setdefault(found.note, _sign(len(marks)))
    return Filled(cell, _shown(cell, found), found, mark)


def _minutes(plan: Plan | None, estimator: Callable[[], Estimator]) -> float | None:
    """Return the minutes that one seed of a table cell would take; None = not known."""
    if plan is None:
        return None
    estimate = estimator()(plan.config)
    return None if estimate is None else (plan.folds or 1) * estimate.seconds / 60


def _shown(cell: Cell, found: Summary) -> str:
    if found.mean is None:
        return "undefined"
    mean = cell.style.number(found.mean)
    if found.deviation is None:
        return mean
    return f"{mean} ± {cell.style.number(found.deviation)}"


def _sign(place: int) -> str:
    """Return the sign of footnote number `place`, from 0: †, ‡, §, ¶, ††, and so on."""
    return MARKS[place % len(MARKS)] * (place // len(MARKS) + 1)


def all_pairs(seeds: int, folds: int | None) -> list[tuple[int, int | None]]:
    """Return all pairs (seed, fold), for a cross-validation with several seeds.

    Args:
        seeds: Number of seeds: 0 to `seeds` - 1.
        folds: Number of folds. None means no cross-validation: the result has one pair
            (seed, None) per seed.

    >>> all_pairs(2, None)
    [(0, None), (1, None)]
    """
    return list(product(range(seeds), [None] if folds is None else range(folds)))
