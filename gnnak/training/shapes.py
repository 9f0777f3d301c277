"""To what sizes batches are padded: seldom changed, and not much too large."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gnnak.training.items import Shape
from gnnak.training.windows import Window

SLACK = 1.02
"""How much larger than the largest batch seen a shape is."""
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
    """The next multiple, with slack and room for at least one more row."""
    rows = math.ceil(rows * SLACK) + 1
    step = max(LEAST_STEP, 2 ** (rows.bit_length() - 8))
    return math.ceil(rows / step) * step


class Shapes:
    """The shape that batches are padded to; it grows when a batch does not fit."""

    def __init__(self) -> None:
        self.shape: Shape | None = None
        self.most: dict[str, int] = {}

    def of(self, window: Window, until: int) -> Shape:
        """A shape that the batches up to number `until` of a window fit in."""
        for axis in window.axes:
            largest = max(window.counts(axis)[:until])
            self.most[axis] = max(largest, self.most.get(axis, 0))
        if self.shape is None or not fits(self.most, self.shape):
            self.shape = choose_shape(self.most)
        return self.shape


def fits(most: Mapping[str, int], shape: Shape) -> bool:
    """Whether batches of so many rows leave room for padding on every axis."""
    return all(rows < getattr(shape, axis) for axis, rows in most.items())
