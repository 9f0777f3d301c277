"""Pad the batches of a loader: several at once, or a single one later."""

import threading
from collections.abc import Mapping, Sequence

from torch import Tensor

from gnnak.graphs import GraphBatch
from gnnak.loading.items import Item, Shape
from gnnak.loading.prefetch import prefetching_paused
from gnnak.loading.shapes import Shapes
from gnnak.loading.splitting import split_both, split_padded
from gnnak.loading.windows import Window, make_window
from gnnak.subgraphs.rooted import RootedSubgraphs

FIRST_WINDOWS = 2
"""Number of windows that are padded before a padded form is first used. Two windows are
assembled before the first batch is used: the second one is prefetched."""
UNUSED_EPOCHS = 2
"""Padding stops when more epochs than this have begun since a padded form was last
used. Two, so that a pass without a `TrainingStep`, such as an evaluation, may come
between two epochs of training."""


class Demand:
    """Decides whether a loader pads its next window (batches assembled together).

    `TrainingStep` uses the padded form of a batch; a plain training loop does not.
    Padding a batch takes about as long as assembling it. A batch that was assembled
    without padding is padded when its padded form is needed, which takes longer than
    padding all batches of a window at once.

    The thread that prefetches windows calls `begin_epoch` and `pads_next`, while the
    thread that trains calls `use`.

    Args:
        always: Whether windows are padded even if no padded form is used.
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
        """Record that the windows of an epoch are going to be assembled."""
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
        """Record that a padded form is used, so that the next windows are padded."""
        with self._lock:
            self._unused = 0


class Padder:
    """Pads batches to one of a few shapes.

    A last batch of an epoch that is smaller than the others is padded to a shape of
    full batches. A last batch of a single graph is not padded: PyTorch's BatchNorm
    raises an error for a single row. A last batch with more graphs than the others,
    into which a few remaining graphs were merged, is not padded either.

    Args:
        batch_size: Number of graphs of a full batch.
        node_targets: Whether targets have one row per node instead of per graph.
        demand: Decides which windows (batches assembled together) are padded.
        both: Whether batches are needed with padding and without. If False, padded
            batches replace those without padding.

    Attributes:
        shapes: The shapes that batches are padded to.
    """

    def __init__(
        self, batch_size: int, node_targets: bool, demand: Demand, both: bool = True
    ) -> None:
        self.batch_size, self.node_targets = batch_size, node_targets
        self.demand, self.both, self.shapes = demand, both, Shapes(distinct=both)

    def pad_if_used(self, window: Window) -> tuple[list[Item], list[Item]]:
        """Return the padded forms of a window's batches, and the batches themselves.

        The batches are views of their padded forms. If `both` is False, the batches
        themselves are padded, and there are no padded forms.

        The lists are empty if padded batches are not used at present, and lack a last
        batch that cannot be padded.
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
        """Pad a batch that was assembled without padding.

        Args:
            batch: The graphs.
            subgraphs: Their rooted subgraphs; None = there are none.
            extra: Further fields by name: the axis that a field has rows on, such as
                "nodes", and its value.

        Returns:
            The padded batch, or None if the batch cannot be padded.
        """
        sizes = [batch.num_graphs]
        window = make_window(batch, subgraphs, sizes, self.node_targets, extra)
        # A prefetching thread may pad, too, and `shapes` is not safe for two threads.
        with prefetching_paused():
            shapes = self._shapes(window)
        return split_padded(window, shapes)[0] if shapes else None

    def _shapes(self, window: Window) -> Sequence[Shape]:
        """Return the shapes to pad the batches of a window to, from the first one on.

        The shape of a last batch that cannot be padded is missing. Until a full batch
        was seen, smaller batches cannot be padded.
        """
        sizes, size = window.counts("graphs"), self.batch_size
        full = sizes.count(size)
        until = len(sizes) - (not min(2, size) <= sizes[-1] <= size)
        if not until or not (full or self.shapes.largest):
            return []
        return self.shapes.of(window, until, full)
