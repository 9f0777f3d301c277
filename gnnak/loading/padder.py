"""Pad the batches of a loader to a few shapes: a whole window at once, or one batch.

A training step is captured as a CUDA graph once per shape, so shapes should be few, and
not much larger than the batches.
"""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import fields
from statistics import mean, pstdev

from torch import Tensor

from gnnak.graphs import GraphBatch
from gnnak.loading.items import Item, Shape
from gnnak.loading.prefetch import prefetching_paused
from gnnak.loading.windows import Window, make_window, split_both, split_padded
from gnnak.subgraphs.rooted import RootedSubgraphs

FEW_BATCHES = 4
"""With at most this many batches, the standard deviation of sizes is unreliable. The
largest shape is then the size of the largest batch, multiplied by `SLACK`."""
SLACK = 1.05
LARGEST_STDS = 5.0
"""With more than `FEW_BATCHES` batches, the largest shape is the mean size plus this
many standard deviations, or the size of the largest batch if that is more."""
ENOUGH_BATCHES = 8
"""The shapes other than the largest are computed from the sizes of at least this many
batches. After each change of the largest shape, this many batches are padded to it."""
SMALLER_STDS = (-0.4, 0.4, 1.2, 2.1)
"""Each number z gives one smaller shape, with the sizes mean + z * std. Fewer shapes
would mean more padding, and more shapes would mean more CUDA graphs."""
LEAST_STEP = 64
"""Small sizes are rounded up to multiples of this number, and large sizes to multiples
of about 1/128 of the size."""


def choose_shape(most: Mapping[str, int], distinct: bool = False) -> Shape:
    """Return a shape with room for `most` rows, and for padding rows, on each axis.

    If `distinct`, all axes get different sizes, so that a tensor's size tells its axis.
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
    rows += 1
    step = max(LEAST_STEP, 2 ** (rows.bit_length() - 8))
    return math.ceil(rows / step) * step


class Shapes:
    """The shapes that batches are padded to: a largest one and a few smaller ones.

    The largest shape grows when a batch does not fit, and never shrinks. The next few
    batches are then padded to the largest shape, so that its training step is captured
    first. The smaller shapes are chosen once, after the first few batches.
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
        """Choose, for each of the first `until` batches, the smallest shape that fits.

        The first `full` batches have the usual number of graphs. Only they enter the
        statistics of sizes from which new shapes are computed.
        """
        counts = {axis: window.counts(axis)[:until] for axis in window.axes}
        known = {axis: rows[:full] for axis, rows in counts.items()}
        for axis, rows in counts.items():
            self.most[axis] = max(*rows, self.most.get(axis, 0))
        if self._seen is not None:
            self._choose_smaller(self._seen, known)
        if self.largest is None or not self.largest.fits(self.most):
            self._grow(known)
        assert self.largest is not None
        found = []
        for sizes in zip(*counts.values(), strict=True):
            self._only_largest -= 1
            smaller = [] if self._only_largest >= 0 else self.smaller
            batch = dict(zip(counts, sizes, strict=True))
            fitting = (shape for shape in smaller if shape.fits(batch))
            found.append(next(fitting, self.largest))
        return found

    def pad_to_largest(self) -> None:
        if self.largest is not None:
            self._only_largest = ENOUGH_BATCHES

    def _choose_smaller(
        self, seen: dict[str, list[int]], counts: Mapping[str, list[int]]
    ) -> None:
        """Add `counts` to `seen`; choose smaller shapes after `ENOUGH_BATCHES`."""
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
        graphs, old = {"graphs": self.most["graphs"]}, self.largest
        if len(counts["graphs"]) <= FEW_BATCHES:
            most = {axis: math.ceil(self.most[axis] * SLACK) for axis in counts}
        else:
            bound = {a: _mean_plus(LARGEST_STDS, rows) for a, rows in counts.items()}
            most = {axis: max(self.most[axis], bound[axis]) for axis in counts}
        if old is not None and old.fits(most | graphs):
            return
        if old is not None:
            most = {axis: max(most[axis], getattr(old, axis) - 1) for axis in most}
        self.largest = choose_shape(most | graphs, self.distinct)
        self._only_largest = ENOUGH_BATCHES


def _mean_plus(stds: float, rows: list[int]) -> int:
    return max(0, math.ceil(mean(rows) + stds * pstdev(rows)))


def is_inside(shape: Shape, other: Shape) -> bool:
    axes = (field.name for field in fields(Shape))
    return all(getattr(shape, axis) <= getattr(other, axis) for axis in axes)


FIRST_WINDOWS = 2
"""Until a padded form is used for the first time, only this many windows are padded.
When the first batch is used, the second window is already being prefetched."""
UNUSED_EPOCHS = 2
"""If no padded form is used while more epochs than this begin, padding stops. An
evaluation, for example, may come between two epochs of training."""


class Demand:
    """Decides whether a loader pads its next window: always, or while padding is used.

    The thread that prefetches calls `pads_next`; the thread that trains calls `use`.
    """

    # One lock for all objects: batches refer to a `Demand`, and an object with its own
    # lock can be neither copied nor pickled.
    _lock = threading.Lock()

    def __init__(self, always: bool) -> None:
        self._always = always
        # Number of windows before the first use of a padded form.
        self._windows = 0
        # Number of epochs begun since the last use; None before the first use.
        self._unused: int | None = None

    def begin_epoch(self) -> None:
        with self._lock:
            if self._unused is not None:
                self._unused += 1

    def pads_next(self) -> bool:
        """Return whether to pad the next window; call this method once per window."""
        with self._lock:
            if self._always:
                return True
            if self._unused is not None:
                return self._unused <= UNUSED_EPOCHS
            self._windows += 1
            return self._windows <= FIRST_WINDOWS

    def use(self) -> None:
        with self._lock:
            self._unused = 0


class Padder:
    """Pads batches to one of a few shapes.

    Most batches have `batch_size` graphs. The last batch stays unpadded if it has more,
    or only one graph, which BatchNorm rejects. If `both`, unpadded batches are returned
    as well.
    """

    def __init__(
        self, batch_size: int, node_targets: bool, demand: Demand, both: bool = True
    ) -> None:
        self.batch_size, self.node_targets = batch_size, node_targets
        self.demand, self.both, self.shapes = demand, both, Shapes(distinct=both)

    def pad_if_used(self, window: Window) -> tuple[list[Item], list[Item]]:
        """Return two lists: padded forms of batches, and the batches to yield.

        Both lists are empty if no batch is padded. If `both` is False, the batches to
        yield are padded, and the first list is empty.
        """
        shapes = self._shapes(window) if self.demand.pads_next() else []
        if not shapes:
            return [], []
        if not self.both:
            return [], split_padded(window, shapes)
        return split_both(window, shapes)

    def pad_one(
        self,
        batch: GraphBatch,
        subgraphs: RootedSubgraphs | None,
        extra: Mapping[str, tuple[str, Tensor]],
    ) -> Item | None:
        sizes = [batch.num_graphs]
        window = make_window(batch, subgraphs, sizes, self.node_targets, extra)
        # A prefetching thread may pad, too, and `shapes` is not safe for two threads.
        with prefetching_paused():
            shapes = self._shapes(window)
        return split_padded(window, shapes)[0] if shapes else None

    def _shapes(self, window: Window) -> Sequence[Shape]:
        sizes, size = window.counts("graphs"), self.batch_size
        full = sizes.count(size)
        until = len(sizes) - (not min(2, size) <= sizes[-1] <= size)
        if not until or not (full or self.shapes.largest):
            return []
        return self.shapes.of(window, until, full)
