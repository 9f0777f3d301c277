"""To what sizes batches are padded: seldom changed, and not much too large."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import mean, pstdev

from gnnak.training.batches.items import Shape
from gnnak.training.batches.windows import Window

SLACK = 1.05
"""How much larger than the largest batch seen a shape is, where few were seen."""
FEW, SPREADS = 4, 4.0
"""Of more than these, how many standard deviations it is above the mean."""
LEAST_STEP = 64
"""Sizes are multiples of this, or of about a 128th of themselves."""


def choose_shape(most: Mapping[str, int]) -> Shape:
    """A shape for batches with at most so many real rows on each axis.

    Every axis has room for padding. Sizes of different things are different; but where
    nothing was dropped, there are as many subgraphs as nodes.

    Args:
        most: The largest batch, by axis; axes that are not used are left out.

    >>> shape = choose_shape({"graphs": 4, "nodes": 50, "edges": 60})
    >>> shape.graphs, shape.nodes, shape.edges, shape.copies
    (5, 64, 65, 0)
    """
    sizes = {"graphs": most["graphs"] + 1}
    for axis in most:
        if axis == "subgraphs" and "fillings" not in most:
            sizes[axis] = sizes["nodes"]
        elif axis != "graphs":
            size = _rounded(most[axis])
            while size in sizes.values():
                size += 1
            sizes[axis] = size
    return Shape(**sizes)


def _rounded(rows: int) -> int:
    """The next multiple, with room for at least one more row."""
    rows += 1
    step = max(LEAST_STEP, 2 ** (rows.bit_length() - 8))
    return math.ceil(rows / step) * step


class Shapes:
    """The shape that batches are padded to; it grows when a batch does not fit.

    No axis ever shrinks.
    """

    def __init__(self) -> None:
        self.shape: Shape | None = None
        self.most: dict[str, int] = {}

    def of(self, window: Window, until: int, full: int) -> Shape:
        """A shape that the batches up to number `until` of a window fit in.

        Args:
            window: The batches.
            until: The first batch that need not fit.
            full: How many of them, the first ones, are of full size.
        """
        counts = {axis: window.counts(axis)[:until] for axis in window.axes}
        for axis, rows in counts.items():
            self.most[axis] = max(*rows, self.most.get(axis, 0))
        if self.shape is None or not fits(self.most, self.shape):
            old = self.shape
            self.shape = choose_shape(
                {
                    axis: max(
                        _expected(rows[:full], self.most[axis]),
                        0 if old is None else getattr(old, axis) - 1,
                    )
                    for axis, rows in counts.items()
                }
                | {"graphs": self.most["graphs"]}
            )
        return self.shape


def _expected(rows: list[int], most: int) -> int:
    """So many rows hardly any batch will have, judging by these."""
    if len(rows) <= FEW:
        return math.ceil(most * SLACK)
    return max(most, math.ceil(mean(rows) + SPREADS * pstdev(rows)))


def fits(most: Mapping[str, int], shape: Shape) -> bool:
    """Whether batches of so many rows leave room for padding on every axis."""
    return all(rows < getattr(shape, axis) for axis, rows in most.items())
