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
"""Up to this number of batches, the standard deviation of their sizes is not used."""
SLACK = 1.05
"""After at most `FEW_BATCHES` batches, the largest shape is the largest batch seen,
times this factor."""
LARGEST_STDS = 5.0
"""After more than `FEW_BATCHES` batches, the largest shape is this many standard
deviations above the mean size of a batch, or as large as the largest batch seen if that
is larger."""
ENOUGH_BATCHES = 8
"""Number of batches that are padded to the largest shape before smaller shapes are
used. These batches also tell which smaller shapes to choose."""
SMALLER_STDS = (-0.4, 0.4, 1.2, 2.1)
"""The sizes of the smaller shapes, in standard deviations above the mean size of a
batch. For normally distributed sizes, the padded size is on average about half a
standard deviation above the mean. With fewer shapes there would be more padding; with
more shapes, more CUDA graphs to capture."""
LEAST_STEP = 64
"""The size of a shape is rounded up to a multiple of a step, which is this number or
about 1/128 of the size, whichever is larger."""


def choose_shape(most: Mapping[str, int]) -> Shape:
    """Return a shape for batches with at most this many real rows on each axis.

    Real rows are those that are not padding. The shape has at least one padding row on
    every axis. Without SubgraphDrop, the shape has as many subgraphs as nodes.

    Args:
        most: For each axis that the batches have, the largest number of real rows.

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
    """Round a number of rows up, so that there is room for at least one padding row."""
    rows += 1
    step = max(LEAST_STEP, 2 ** (rows.bit_length() - 8))
    return math.ceil(rows / step) * step


class Shapes:
    """The shapes that batches are padded to: a largest one and a few smaller ones.

    A shape is the number of graphs, nodes, edges and so on of a padded batch. The
    largest shape grows when a batch does not fit; it never shrinks on any axis. The
    smaller shapes are chosen once, after the first few batches. After each change of
    the largest shape, the next few batches are all padded to the largest shape, so that
    the training step for it is captured before the steps for the smaller shapes.
    """

    def __init__(self) -> None:
        self.largest: Shape | None = None
        self.smaller: list[Shape] = []
        # `most`: by axis, the largest number of real rows of a batch so far.
        # `_seen`: by axis, the number of rows of each batch of full size; None once the
        # smaller shapes are chosen.
        self.most: dict[str, int] = {}
        self._seen: dict[str, list[int]] | None = {}
        self._only_largest = 0

    def of(self, window: Window, until: int, full: int) -> list[Shape]:
        """Return, for each of the first `until` batches, the shape to pad it to.

        This is the smallest shape that fits the batch. For the first few batches after
        a change of the largest shape, it is the largest shape.

        Args:
            window: The batches.
            until: Number of batches to return a shape for.
            full: Number of batches with the full batch size, which come first. Mean and
                standard deviation are computed from these only.
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

    def _choose_smaller(
        self, seen: dict[str, list[int]], counts: Mapping[str, list[int]]
    ) -> None:
        """Choose the smaller shapes, if enough batches of full size were seen.

        Args:
            seen: For each axis (such as "nodes"), the sizes of all batches seen before;
                `counts` is appended in place.
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
            shape = choose_shape(sizes | {"graphs": self.most["graphs"]})
            new = shape != self.largest and shape not in self.smaller
            if new and is_inside(shape, self.largest):
                self.smaller.append(shape)

    def _grow(self, counts: Mapping[str, list[int]]) -> None:
        """Grow the largest shape, unless batches of similar sizes fit already.

        Args:
            counts: For each axis (such as "nodes"), the sizes of some batches.
        """
        graphs, old = {"graphs": self.most["graphs"]}, self.largest
        most = {
            axis: _upper_bound(rows, self.most[axis]) for axis, rows in counts.items()
        }
        if old is not None and fits(most | graphs, old):
            return
        if old is not None:
            most = {axis: max(most[axis], getattr(old, axis) - 1) for axis in most}
        self.largest = choose_shape(most | graphs)
        self._only_largest = ENOUGH_BATCHES


def _upper_bound(rows: list[int], most: int) -> int:
    """Return a size, such as a number of nodes, that hardly any batch exceeds.

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

    It can if on every axis (nodes, edges, ...) it has fewer rows than the shape.

    Args:
        most: Number of rows of the unpadded batch, by axis.
        shape: The number of rows of a padded batch on each axis.
    """
    return all(rows < getattr(shape, axis) for axis, rows in most.items())


def is_inside(shape: Shape, other: Shape) -> bool:
    """Return whether `shape` is at most as large as `other` on every axis."""
    axes = (field.name for field in fields(Shape))
    return all(getattr(shape, axis) <= getattr(other, axis) for axis in axes)
