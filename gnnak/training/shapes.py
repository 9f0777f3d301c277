"""To what sizes batches are padded: seldom changed, and not much too large."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gnnak.training.items import Shape
from gnnak.training.windows import Window

RUNG = 1.02
"""How much larger each shape is than the next smaller one."""
LEAST_STEP = 64
"""Sizes are multiples of this, or of about a 128th of themselves."""
MOST_SHAPES = 6
"""How many shapes there are at most; what is captured is captured for each."""


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
    """A ladder of few shapes: batches are padded to the smallest that they fit in."""

    def __init__(self) -> None:
        self.least: dict[str, int] = {}
        self.rungs: dict[int, Shape] = {}

    def of(self, window: Window, until: int) -> Shape:
        """A shape that the batches up to number `until` of a window fit in."""
        most = {axis: max(window.counts(axis)[:until]) for axis in window.axes}
        self.least = self.least or {axis: max(most[axis], 1) for axis in most}
        rung = max(self._rung(axis, most[axis]) for axis in most if axis != "graphs")
        if rung not in self.rungs and len(self.rungs) + 1 == MOST_SHAPES:
            rung = max(rung, *self.rungs) + 2
        usable = [known for known in self.rungs if rung <= known]
        if rung in self.rungs or (len(self.rungs) >= MOST_SHAPES and usable):
            return self.rungs[min(usable)]
        grown = {
            axis: max(math.ceil(self.least[axis] * RUNG**rung), rows)
            for axis, rows in most.items()
        }
        self.rungs[rung] = choose_shape(grown | {"graphs": most["graphs"]})
        return self.rungs[rung]

    def _rung(self, axis: str, rows: int) -> int:
        """The lowest rung with so many rows on an axis."""
        return math.ceil(math.log(max(rows, 1) / self.least[axis]) / math.log(RUNG))


def fits(most: Mapping[str, int], shape: Shape) -> bool:
    """Whether batches of so many rows leave room for padding on every axis."""
    return all(rows < getattr(shape, axis) for axis, rows in most.items())
