"""Fill the cells of the paper's tables with our numbers, read from JSON records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from gnnak.report.cells import Cell, PaperTable
from gnnak.report.lookup import RunRecords
from gnnak.report.statistics import read_statistics, statistic
from gnnak.training.records.results import Record
from gnnak.training.records.summary import Summary

MARKS = ("†", "‡", "§", "¶")
"""Signs of footnotes; from the fifth footnote on, they are doubled."""
LEGEND = "Ours, and in brackets the paper's; a cell without ours has not been run."


@dataclass(frozen=True)
class Filled:
    """A table cell with the paper's number and our number."""

    cell: Cell
    """The table cell, with the paper's number."""
    ours: str = ""
    """Our number as printed; empty if we have no number for this cell."""
    summary: Summary | None = None
    """Mean, deviation and number of our runs. None if no run has a record, or if the
    cell shows a statistic of a data set."""
    mark: str = ""
    """Sign of the cell's footnote; empty if the cell has no footnote."""

    @property
    def text(self) -> str:
        """Our number, followed by the paper's number in brackets."""
        paper = f"({self.cell.paper})" if self.cell.paper else ""
        return f"{self.ours}{self.mark} {paper}".strip()

    def as_dict(self) -> dict[str, Any]:
        """Return titles, numbers and footnote of the cell, ready for JSON or CSV."""
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
        }


@dataclass(frozen=True)
class FilledTable:
    """One of the paper's tables, with the paper's numbers and ours."""

    table: PaperTable
    """The table with the paper's numbers only."""
    rows: tuple[tuple[Filled, ...], ...]
    """The rows; each has one filled cell per column."""
    footnotes: tuple[tuple[str, str], ...]
    """Sign and text of every footnote, such as ("†", "1 of 3 seeds")."""

    @property
    def header(self) -> list[str]:
        """Titles of the columns, after an empty text above the titles of the rows."""
        return ["", *self.table.columns]

    @property
    def body(self) -> list[list[str]]:
        """The rows as text: the title of the row, then the text of each cell."""
        return [[row[0].cell.row, *(c.text for c in row)] for row in self.rows]

    @property
    def remarks(self) -> list[str]:
        """The lines below the table: its footnotes, the legend, then its notes."""
        signed = [f"{mark} {note}." for mark, note in self.footnotes]
        return [*signed, LEGEND, *self.table.notes]


def fill_table(
    table: PaperTable,
    records: RunRecords,
    statistics: Mapping[str, Record] | None = None,
) -> FilledTable:
    """Look up our number for every cell of a table.

    Args:
        table: The table with the paper's numbers.
        records: Records of training runs.
        statistics: Statistics records of data sets, by name of the data set.
    """
    marks: dict[str, str] = {}
    rows = tuple(
        tuple(_fill(cell, records, statistics or {}, marks) for cell in row)
        for row in table.rows
    )
    return FilledTable(table, rows, tuple((m, n) for n, m in marks.items()))


def fill_from_folder(table: PaperTable, results: Path) -> FilledTable:
    """Fill a table like `fill_table`, with the records of a results folder."""
    return fill_table(table, RunRecords.read(results), read_statistics(results))


def _fill(
    cell: Cell,
    records: RunRecords,
    statistics: Mapping[str, Record],
    marks: dict[str, str],
) -> Filled:
    """Look up our number for one table cell.

    `marks` has the sign of every footnote, by its text. If the cell needs a new
    footnote, this function adds it to `marks`.
    """
    if cell.fact is not None and cell.fact.dataset in statistics:
        record = statistics[cell.fact.dataset]
        return Filled(cell, statistic(cell.fact, cell.style, record))
    found = None if cell.plan is None else records.summary(cell.plan)
    if found is None:
        return Filled(cell)
    mark = ""
    if found.note:
        mark = marks.setdefault(found.note, _sign(len(marks)))
    return Filled(cell, _shown(cell, found), found, mark)


def _shown(cell: Cell, found: Summary) -> str:
    mean = cell.style.number(found.mean)
    if found.deviation is None:
        return mean
    return f"{mean} ± {cell.style.number(found.deviation)}"


def _sign(place: int) -> str:
    """Return the sign of a footnote by its index from 0: †, ‡, §, ¶, ††, and so on."""
    return MARKS[place % len(MARKS)] * (place // len(MARKS) + 1)


def all_pairs(seeds: int, folds: int | None) -> list[tuple[int, int | None]]:
    """Return all pairs of seed and fold.

    Args:
        seeds: Number of seeds.
        folds: Number of folds; if None, there is one pair per seed, with fold None.

    >>> all_pairs(2, None)
    [(0, None), (1, None)]
    """
    return list(product(range(seeds), [None] if folds is None else range(folds)))
