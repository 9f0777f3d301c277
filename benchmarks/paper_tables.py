"""Render the paper's tables with our numbers, for the pages in docs/."""

from collections.abc import Callable
from dataclasses import astuple
from functools import cache, partial

from benchmarks.markdown import RESULTS, markdown
from gnnak.report.cells import load_table, table_names
from gnnak.report.tables import Counts, FilledTable, fill_from_folder

BLOCKS = {
    "simulation": (4, 4, 5),
    "context-d2c": (6, 4, 5),
    "base-depth": (4, 5),
    "subgraphdrop": (5, 2),
    "ppgn-sr25": (3, 3),
}
"""Numbers of columns of the parts into which wide tables are split, by table."""
NARROW = {"simulation": (2, 2, 2, 2, 2, 3), "real-world": (2, 3)}
"""The same for the README, whose tables are at most 100 characters wide."""


def paper_tables() -> dict[str, Callable[[], str]]:
    """Return a function that renders each of the paper's tables.

    The name of the function for the table real-world is paper_real_world; it is
    narrow_real_world for the tables of the README.
    """
    names = [name for name in table_names() if name != "datasets"]
    blocks = {"paper": {name: BLOCKS.get(name) for name in names}, "narrow": NARROW}
    return {
        f"{kind}_{name.replace('-', '_')}": partial(_paper_table, name, widths)
        for kind, tables in blocks.items()
        for name, widths in tables.items()
    }


def filled_table(name: str) -> FilledTable:
    """Return a table of the paper with our numbers; all are read in the first call."""
    return _filled_tables()[name]


@cache
def _filled_tables() -> dict[str, FilledTable]:
    names = table_names()
    filled = fill_from_folder(map(load_table, names), RESULTS)
    return dict(zip(names, filled, strict=True))


def agreement_summary() -> str:
    """Render how many cells of each table were run, and how many agree."""
    rows, totals = [], Counts()
    for name in table_names():
        counts = filled_table(name).counts
        if counts.cells:
            rows.append([name, *map(str, astuple(counts)), _percent(counts)])
            pairs = zip(astuple(totals), astuple(counts), strict=True)
            totals = Counts(*(a + b for a, b in pairs))
    rows.append(["all", *map(str, astuple(totals)), _percent(totals)])
    signs = ["▲ better", "≈ within", "▼ worse", "◆ OOM", "none"]
    header = ["table", "cells", "run", *signs, "all seeds", "▼ why", "▲ or ≈"]
    return markdown(header, rows)


def _percent(counts: Counts) -> str:
    return "" if counts.share is None else f"{counts.share:.0%}"


def _paper_table(name: str, widths: tuple[int, ...] | None) -> str:
    """Render one table in parts, and the remarks below it.

    Args:
        name: Name of the table.
        widths: Number of columns of each part; None = all columns in one part.
    """
    filled = filled_table(name)
    parts, first = [], 1
    for width in widths or (len(filled.table.columns),):
        chosen = slice(first, first + width)
        first += width
        rows = [row for row in filled.body if any(row[chosen])]
        lines = [[row[0], *row[chosen]] for row in rows]
        parts.append(markdown(["", *filled.header[chosen]], lines))
    assert first == len(filled.header), name
    return "\n\n".join([*parts, _remarks(filled)])


def _remarks(filled: FilledTable) -> str:
    return "\n".join(f"- {remark}" for remark in filled.remarks)
