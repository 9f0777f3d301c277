"""Choose the few shapes that batches are padded to.

A shape is the number of rows on each axis, such as graphs, nodes and edges. A training
step is captured as a CUDA graph once per shape, so shapes should be few and change
rarely. Padding costs time, so shapes should not be much larger than the batches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from statistics import mean, pstdev

from gnnak.loading.items import Shape
from gnnak.loading.windows import Window

FEW_BATCHES = 4
"""With at most this many batches, the standard deviation of their sizes is unreliable,
and the largest shape is chosen with `SLACK` instead."""
SLACK = 1.05
"""As long as at most `FEW_BATCHES` batches were seen, the largest shape has the sizes
of the largest batch, multiplied by this factor."""
LARGEST_STDS = 5.0
"""When more than `FEW_BATCHES` batches were seen, the largest shape has the mean size
of a batch plus this many standard deviations, or the size of the largest batch if that
is larger."""
ENOUGH_BATCHES = 8
"""Number of batches that are padded to the largest shape before smaller shapes are
used. The sizes of these batches determine the smaller shapes."""
SMALLER_STDS = (-0.4, 0.4, 1.2, 2.1)
"""Batches are padded to one of a few sizes, called shapes. This tuple sets all shapes
except the largest: each entry s gives the size mean + s * std, where mean and std are
taken over the sizes of batches. Fewer shapes would mean more padding, and more shapes
would mean more CUDA graphs to capture."""
LEAST_STEP = 64
"""The sizes of a shape are rounded up to multiples of a step. The step is this number
or about 1/128 of the size, whichever is larger."""


def choose_shape(most: Mapping[str, int], distinct: bool = False) -> Shape:
    """Return a shape (sizes of a padded batch) for batches of at most the given sizes.

    On every axis, such as nodes, the shape has room for at least one padding row.
    Without SubgraphDrop, the shape has as many subgraphs as nodes.

    Args:
        most: For each axis that the batches have, the largest size of a batch.
        distinct: Whether no two axes have the same size, so that the number of rows of
            a tensor tells its axis. Without SubgraphDrop, subgraphs and nodes still
            have the same size.

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
            while distinct and [*sizes.values()].count(sizes[axis]) > 1:
                sizes[axis] = _rounded(sizes[axis])
    return Shape(**sizes)


def _rounded(rows: int) -> int:
    """Return a larger, round number of rows, with room for at least one padding row."""
    rows += 1
    step = max(LEAST_STEP, 2 ** (rows.bit_length() - 8))
    return math.ceil(rows / step) * step


class Shapes:
    """The shapes that batches are padded to: a largest one and a few smaller ones.

    A shape is the number of graphs, nodes, edges and so on of a padded batch. The
    largest shape grows when a batch does not fit; it never shrinks on any axis. The
    smaller shapes are chosen once, after the first few batches. After each change of
    the largest shape, the next few batches are all padded to the largest shape, so that
    its training step is captured as a CUDA graph before those of the smaller shapes.

    Args:
        distinct: Whether the axes of a shape have different sizes; see `choose_shape`.
    """

    def __init__(self, distinct: bool = False) -> None:
        self.distinct = distinct
        self.largest: Shape | None = None
        self.smaller: list[Shape] = []
        # `most`: for each axis, the size of the largest batch so far, without padding.
        # `_seen`: for each axis, the sizes of all batches of full size; None once the
        # smaller shapes are chosen.
        self.most: dict[str, int] = {}
        self._seen: dict[str, list[int]] | None = {}
        self._only_largest = 0

    def of(self, window: Window, until: int, full: int) -> list[Shape]:
        """Return, for each of the first `until` batches, the shape to pad it to.

        Each batch gets the smallest shape that it fits in. After a change of the
        largest shape, the next few batches get the largest shape instead.

        Args:
            window: Several consecutive batches, assembled as one large batch.
            until: Number of batches to return a shape for.
            full: Number of batches with the full number of graphs; these come first.
                Only these are used to choose new shapes.
        """
        counts = {axis: window.counts(axis)[:until] for axis in window.axes}
        known = {axis: rows[:full] for axis, rows in counts.items()}
        for axis, rows in counts.items():
            self.most[axis] = max(*rows, self.most.get(axis, 0))
        if self._seen is not None:
            self._choose_smaller(self._seen, known)
        if self.largest is None or not fits(self.most, self.largest):
            self._grow(known)
        assert self.largest is not None
        found = []
        for sizes in zip(*counts.values(), strict=True):
            self._only_largest -= 1
            smaller = [] if self._only_largest >= 0 else self.smaller
            batch = dict(zip(counts, sizes, strict=True))
            fitting = (shape for shape in smaller if fits(batch, shape))
            found.append(next(fitting, self.largest))
        return found

    def pad_to_largest(self) -> None:
        """Pad the next few batches to the largest shape, if there is one."""
        if self.largest is not None:
            self._only_largest = ENOUGH_BATCHES

    def _choose_smaller(
        self, seen: dict[str, list[int]], counts: Mapping[str, list[int]]
    ) -> None:
        """Choose the smaller shapes, if `ENOUGH_BATCHES` full batches were seen.

        Args:
            seen: For each axis (such as "nodes"), the sizes of all earlier batches. The
                sizes of the new batches are appended to these lists.
            counts: For each axis, the sizes of the new batches.
        """
        for axis, rows in counts.items():
            seen.setdefault(axis, []).extend(rows)
        if len(seen["graphs"]) < ENOUGH_BATCHES:
            return
        self._seen = None
        self._grow(seen)
        assert self.largest is not None
        for stds in SMALLER_STDS:
            sizes = {axis: _mean_plus(stds, rows) for axis, rows in seen.items()}
            sizes |= {"graphs": self.most["graphs"]}
            shape = choose_shape(sizes, self.distinct)
            new = shape != self.largest and shape not in self.smaller
            if new and is_inside(shape, self.largest):
                self.smaller.append(shape)

    def _grow(self, counts: Mapping[str, list[int]]) -> None:
        """Grow the largest shape, so that hardly any batch will be larger.

        If the largest shape is large enough already, this does nothing.

        Args:
            counts: For each axis (such as "nodes"), the sizes of the batches from which
                the sizes of later batches are estimated.
        """
        graphs, old = {"graphs": self.most["graphs"]}, self.largest
        most = {
            axis: _upper_bound(rows, self.most[axis]) for axis, rows in counts.items()
        }
        if old is not None and fits(most | graphs, old):
            return
        if old is not None:
            most = {axis: max(most[axis], getattr(old, axis) - 1) for axis in most}
        self.largest = choose_shape(most | graphs, self.distinct)
        self._only_largest = ENOUGH_BATCHES


def _upper_bound(rows: list[int], most: int) -> int:
    """Estimate a size, such as a number of nodes, that hardly any batch will exceed.

    Args:
        rows: The sizes of the batches seen so far.
        most: The size of the largest batch seen so far.
    """
    if len(rows) <= FEW_BATCHES:
        return math.ceil(most * SLACK)
    return max(most, _mean_plus(LARGEST_STDS, rows))


def _mean_plus(stds: float, rows: list[int]) -> int:
    """Return the mean of `rows` plus `stds` standard deviations; 0 if negative."""
    return max(0, math.ceil(mean(rows) + stds * pstdev(rows)))


def fits(most: Mapping[str, int], shape: Shape) -> bool:
    """Return whether a batch can be padded to a shape.

    On every axis (nodes, edges, ...) the batch must be smaller than the shape, so that
    there is room for padding.

    Args:
        most: The size of the batch on each axis, such as its number of nodes.
        shape: The sizes of the padded batch.
    """
    return all(rows < getattr(shape, axis) for axis, rows in most.items())


def is_inside(shape: Shape, other: Shape) -> bool:
    """Return whether `shape` is at most as large as `other` on every axis."""
    axes = (field.name for field in fields(Shape))
    return all(getattr(shape, axis) <= getattr(other, axis) for axis in axes)
