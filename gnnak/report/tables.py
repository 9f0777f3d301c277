"""Fill the paper's tables with our numbers."""

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
"""Signs of footnotes."""
LEGEND = "Ours, and in brackets the paper's; a cell without ours has not been run."


@dataclass(frozen=True)
class Filled:
    """A cell with our number."""

    cell: Cell
    """The cell."""
    ours: str = ""
    """Our number as printed; empty if there is none."""
    summary: Summary | None = None
    """Mean, deviation and number of runs; None for statistics, or without runs."""
    mark: str = ""
    """Sign of the footnote; empty if there is none."""

    @property
    def text(self) -> str:
        """Our number, followed by the paper's in brackets."""
        paper = f"({self.cell.paper})" if self.cell.paper else ""
        return f"{self.ours}{self.mark} {paper}".strip()

    def as_dict(self) -> dict[str, Any]:
        """Return the cell as a JSON object."""
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
    """A table with our numbers."""

    table: PaperTable
    """The table."""
    rows: tuple[tuple[Filled, ...], ...]
    """Cells by row, one per column."""
    footnotes: tuple[tuple[str, str], ...]
    """Sign and text of every footnote."""

    @property
    def header(self) -> list[str]:
        """Titles of the columns; the first, above the titles of the rows, is empty."""
        return ["", *self.table.columns]

    @property
    def body(self) -> list[list[str]]:
        """Rows of text: the title of the row, then its cells."""
        return [[row[0].cell.row, *(c.text for c in row)] for row in self.rows]

    @property
    def remarks(self) -> list[str]:
        """The lines below the table: footnotes, the legend, the table's notes."""
        signed = [f"{mark} {note}." for mark, note in self.footnotes]
        return [*signed, LEGEND, *self.table.notes]


def fill_table(
    table: PaperTable,
    records: RunRecords,
    statistics: Mapping[str, Record] | None = None,
) -> FilledTable:
    """Look up our number of every cell.

    Args:
        table: The table.
        records: Records of runs.
        statistics: Records of data sets, by name.
    """
    marks: dict[str, str] = {}
    rows = tuple(
        tuple(_fill(cell, records, statistics or {}, marks) for cell in row)
        for row in table.rows
    )
    return FilledTable(table, rows, tuple((m, n) for n, m in marks.items()))


def fill_from_folder(table: PaperTable, results: Path) -> FilledTable:
    """Look up our number of every cell in the records of a results folder."""
    return fill_table(table, RunRecords.read(results), read_statistics(results))


def _fill(
    cell: Cell,
    records: RunRecords,
    statistics: Mapping[str, Record],
    marks: dict[str, str],
) -> Filled:
    """Look up one cell; add its footnote to `marks`, from text to sign."""
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
    """Return the sign of the footnote at an index: †, ‡, §, ¶, ††, ‡‡, ..."""
    return MARKS[place % len(MARKS)] * (place // len(MARKS) + 1)


def all_pairs(seeds: int, folds: int | None) -> list[tuple[int, int | None]]:
    """Return all pairs of seed and fold; the fold is None if there are none.

    >>> all_pairs(2, None)
    [(0, None), (1, None)]
    """
    return list(product(range(seeds), [None] if folds is None else range(folds)))
