"""Why our number is worse than the paper's, for table cells in which it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

from gnnak.report.cells import Cell
from gnnak.report.verdict import SIGNS, compare
from gnnak.training.config.experiment import CONFIGS, read_yaml
from gnnak.training.records.summary import Summary

FILE = CONFIGS / "tables" / "_worse.yaml"
SHORTENED = (
    "our runs had fewer epochs than the paper's (see the footnotes), so the numbers "
    "cannot be compared yet."
)


def reason_of(cell: Cell, ours: Summary) -> str | None:
    """Return why our number in a table cell is worse than the paper's.

    If the run of one seed agrees with the paper, the reason is that the runs differ. If
    a run was shortened, the numbers cannot be compared. Otherwise, the reason is one of
    those in `configs/tables/_worse.yaml`.

    Args:
        cell: The cell, with the paper's number.
        ours: Our runs.

    Returns:
        The reason; None if our number is not worse, or if no reason is known.
    """
    if compare(cell, ours) != "worse":
        return None
    of_seeds = cell.plan is None or cell.plan.folds is None
    if of_seeds and len(ours.values) > 1 and _one_agrees(cell, ours):
        shown = ", ".join(cell.style.number(value) for value in ours.values)
        return f"the runs differ ({shown}), and not all are worse than the paper's."
    if ours.shortened:
        return SHORTENED
    for text, reason in _known().items():
        if text in cell.title:
            return reason
    return None


def remarks_on(cells: Iterable[tuple[Cell, Summary]]) -> list[str]:
    """Return a line for each reason, with the titles of the cells that it explains.

    Args:
        cells: Cells of a table, each with our runs.
    """
    titles: dict[str, list[str]] = {}
    for cell, ours in cells:
        reason = reason_of(cell, ours)
        if reason is not None:
            titles.setdefault(reason, []).append(cell.title)
    return [f"{SIGNS['worse']} {'; '.join(t)}: {why}" for why, t in titles.items()]


def _one_agrees(cell: Cell, ours: Summary) -> bool:
    """Return whether the number of a single run is not worse than the paper's."""
    each = (replace(ours, mean=value) for value in ours.values)
    return any(compare(cell, one) != "worse" for one in each)


@cache
def _known() -> Mapping[str, str]:
    """Return the reasons in the file, by a text that the titles of cells contain."""
    return read_yaml(FILE)
