"""Compare our number in a table cell with the paper's number."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gnnak.report.cells import Cell
from gnnak.training.records.summary import Summary

Verdict = Literal["better", "within", "worse"]
"""How our number compares with the paper's, see `compare`."""
SIGNS: dict[Verdict, str] = {"better": "▲", "within": "≈", "worse": "▼"}
"""The sign of each verdict in a printed table."""
DEVIATIONS = 2.0
"""How many of the paper's standard deviations our number may differ from the paper's
and still agree."""
SHARE = 0.05
"""How far our number may differ, as a share of the paper's number, where the paper
gives no standard deviation."""
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\D*(?:± (\d+(?:\.\d+)?))?\D*")


@dataclass(frozen=True)
class PaperNumber:
    """A number as printed in the paper, such as "0.080 ± 0.001"."""

    mean: float
    """The number before the sign ±."""
    tolerance: float
    """How far a number may be from `mean` and still agree with it."""


def parse_number(text: str) -> PaperNumber | None:
    """Read a number of the paper; return None for a text without one, such as "OOM".

    The tolerance is two standard deviations, or 5 % if the paper gives none, but at
    least half a unit of the last printed digit.

    >>> parse_number("0.080 ± 0.001")
    PaperNumber(mean=0.08, tolerance=0.002)
    >>> parse_number("50%").tolerance, parse_number("OOM")
    (2.5, None)
    """
    found = NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    mean, deviation = found.groups()
    digits = len(mean.partition(".")[2])
    half_unit = 0.5 * 10.0**-digits
    if deviation is None:
        allowed = SHARE * abs(float(mean))
    else:
        allowed = DEVIATIONS * float(deviation)
    return PaperNumber(float(mean), max(allowed, half_unit))


def compare(cell: Cell, ours: Summary) -> Verdict | None:
    """Return whether our number is better than, within or worse than the paper's.

    "within": the two differ by at most the tolerance of `parse_number`. "better" and
    "worse": they differ by more. Where the paper ran out of memory ("OOM"), any number
    is better.

    Returns:
        The verdict, or None if the paper has no number for this cell, or ours is
        undefined.
    """
    if cell.paper is None or ours.mean is None:
        return None
    paper = parse_number(cell.paper)
    if paper is None:
        return "better" if cell.paper == "OOM" else None
    mean = 100 * ours.mean if cell.style.percent else ours.mean
    gain = paper.mean - mean if ours.lower_is_better else mean - paper.mean
    if abs(gain) <= paper.tolerance * (1 + 1e-9):
        return "within"
    return "better" if gain > 0 else "worse"


@dataclass(frozen=True)
class Counts:
    """How many cells of a table were run, and how they compare with the paper's."""

    cells: int = 0
    """Cells that show the result of runs."""
    run: int = 0
    """Cells of which at least one run has a record."""
    better: int = 0
    """Cells in which our number is better than the paper's."""
    within: int = 0
    """Cells in which our number agrees with the paper's."""
    worse: int = 0
    """Cells in which our number is worse than the paper's."""
    shortened: int = 0
    """Worse cells whose runs had fewer epochs than the paper's."""
    explained: int = 0
    """Worse cells for which another reason is known, see `reason_of`."""

    @property
    def share(self) -> float | None:
        """The share of better or agreeing cells among all compared cells, or None."""
        compared = self.better + self.within + self.worse
        return (self.better + self.within) / compared if compared else None


def count(cells: Iterable[tuple[bool, Verdict | None]]) -> Counts:
    """Count cells by verdict.

    Args:
        cells: For each cell whether it was run, and its verdict.

    >>> counts = count([(True, "within"), (True, "worse"), (False, None)])
    >>> counts.cells, counts.run, counts.within, counts.worse
    (3, 2, 1, 1)
    """
    pairs = list(cells)
    verdicts = [verdict for _, verdict in pairs]
    return Counts(
        len(pairs),
        sum(was_run for was_run, _ in pairs),
        verdicts.count("better"),
        verdicts.count("within"),
        verdicts.count("worse"),
    )
