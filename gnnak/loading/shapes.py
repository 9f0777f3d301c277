"""To what sizes batches are padded: seldom changed, and not much too large."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from statistics import mean, pstdev

from gnnak.loading.items import Shape
from gnnak.loading.windows import Window

SLACK = 1.05
"""How much larger than the largest batch seen a shape is, where few were seen."""
FEW, SPREADS = 4, 5.0
"""Of more than these, how many standard deviations it is above the mean."""
ENOUGH = 8
"""Batches by which shapes are chosen; and those that have the largest one at first."""
SMALLER = (-0.4, 0.4, 1.2, 2.1)
"""How many standard deviations these are above the mean. Sizes that spread like a bell
are then padded to about half a one above the mean, on average; fewer of them would pad
more, and each has to be captured."""
LEAST_STEP = 64
"""Sizes are multiples of this, or of about a 128th of themselves."""


def choose_shape(most: Mapping[str, int]) -> Shape:
    """A shape for batches with at most so many real rows on each axis.

    Every axis has at least one padding row. Where no subgraph was dropped, there are as
    many subgraphs as nodes.

    Args:
        most: The largest batch, by axis; axes that are not used are left out.

    >>> shape = choose_shape({"graphs": 4, "nodes": 50, "edges": 60})
    >>> shape.graphs, shape.nodes, shape.edges, shape.copies
    (5, 64, 64, 0)
    """
    sizes = {"graphs": most["graphs"] + 1}
    for axis in most:
        if axis == "subgraphs" and "fillings" not in most:
            sizes[axis] = sizes["nodes"]
        elif axis != "graphs":
            sizes[axis] = _rounded(most[axis])
    return Shape(**sizes)


def _rounded(rows: int) -> int:
    """The next multiple, with room for at least one more row."""
    rows += 1
    step = max(LEAST_STEP, 2 ** (rows.bit_length() - 8))
    return math.ceil(rows / step) * step


class Shapes:
    """The shapes that batches are padded to: one that all fit in, and smaller ones.

    The largest grows when a batch does not fit; no axis ever shrinks. Smaller ones are
    chosen once, after the first few batches. Whenever the largest is new, the next few
    batches have it, so that steps of it are captured before those of the others.
    """

    def __init__(self) -> None:
        self.largest: Shape | None = None
        self.smaller: list[Shape] = []
        self.most: dict[str, int] = {}
        self._seen: dict[str, list[int]] | None = {}
        self._wait = 0

    def of(self, window: Window, until: int, full: int) -> list[Shape]:
        """Shapes for the batches up to number `until` of a window, each the first fit.

        Args:
            window: The batches.
            until: The first batch that need not fit.
            full: How many of them, the first ones, are of full size.
        """
        counts = {axis: window.counts(axis)[:until] for axis in window.axes}
        known = {axis: rows[:full] for axis, rows in counts.items()}
        for axis, rows in counts.items():
            self.most[axis] = max(*rows, self.most.get(axis, 0))
        if self._seen is not None:
            self._look_at(self._seen, known)
        if self.largest is None or not fits(self.most, self.largest):
            self._grow(known)
        assert self.largest is not None
        found = []
        for sizes in zip(*counts.values(), strict=True):
            self._wait -= 1
            smaller = [] if self._wait >= 0 else self.smaller
            batch = dict(zip(counts, sizes, strict=True))
            fitting = (shape for shape in smaller if fits(batch, shape))
            found.append(next(fitting, self.largest))
        return found

    def _look_at(
        self, seen: dict[str, list[int]], counts: Mapping[str, list[int]]
    ) -> None:
        """Once enough batches of full size were seen, choose all shapes by them."""
        for axis, rows in counts.items():
            seen.setdefault(axis, []).extend(rows)
        if len(seen["graphs"]) < ENOUGH:
            return
        self._seen = None
        self._grow(seen)
        assert self.largest is not None
        for spreads in SMALLER:
            expected = {axis: _above(rows, spreads) for axis, rows in seen.items()}
            shape = choose_shape(expected | {"graphs": self.most["graphs"]})
            new = shape != self.largest and shape not in self.smaller
            if new and is_inside(shape, self.largest):
                self.smaller.append(shape)

    def _grow(self, counts: Mapping[str, list[int]]) -> None:
        """Choose the largest shape, judging by these batches of full size."""
        graphs, old = {"graphs": self.most["graphs"]}, self.largest
        most = {axis: _expected(rows, self.most[axis]) for axis, rows in counts.items()}
        if old is not None and fits(most | graphs, old):
            return
        if old is not None:
            most = {axis: max(most[axis], getattr(old, axis) - 1) for axis in most}
        self.largest, self._wait = choose_shape(most | graphs), ENOUGH


def _expected(rows: list[int], most: int) -> int:
    """So many rows hardly any batch will have, judging by these."""
    if len(rows) <= FEW:
        return math.ceil(most * SLACK)
    return max(most, _above(rows, SPREADS))


def _above(rows: list[int], spreads: float) -> int:
    """So many standard deviations above the mean; not below zero."""
    return max(0, math.ceil(mean(rows) + spreads * pstdev(rows)))


def fits(most: Mapping[str, int], shape: Shape) -> bool:
    """Whether batches of so many rows leave room for padding on every axis."""
    return all(rows < getattr(shape, axis) for axis, rows in most.items())


def is_inside(shape: Shape, other: Shape) -> bool:
    """Whether a shape is larger than another on no axis."""
    axes = (field.name for field in fields(Shape))
    return all(getattr(shape, axis) <= getattr(other, axis) for axis in axes)
