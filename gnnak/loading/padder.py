"""Pad the batches of a loader: several at once, or a single one later."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from gnnak.graphs import GraphBatch
from gnnak.loading.demand import Demand
from gnnak.loading.items import Item, Shape
from gnnak.loading.prefetch import prefetching_paused
from gnnak.loading.shapes import Shapes
from gnnak.loading.splitting import split_both, split_padded
from gnnak.loading.windows import Window, make_window
from gnnak.subgraphs.rooted import RootedSubgraphs


class Padder:
    """Pads batches to one of a few shapes.

    A last batch of an epoch that is smaller than the others is padded to a shape of
    full batches. A last batch of a single graph is not padded: PyTorch's BatchNorm
    raises an error for a single row.

    Args:
        batch_size: Number of graphs of a full batch.
        node_targets: Whether targets have one row per node instead of per graph.
        demand: Decides which windows (batches assembled together) are padded.

    Attributes:
        shapes: The shapes that batches are padded to.
    """

    def __init__(self, batch_size: int, node_targets: bool, demand: Demand) -> None:
        self.batch_size, self.node_targets = batch_size, node_targets
        self.demand, self.shapes = demand, Shapes(distinct=True)

    def pad_if_used(self, window: Window) -> tuple[list[Item], list[Item]]:
        """Return the padded batches of a window, and views of them without padding.

        The lists are empty if padded batches are not used at present, and lack a last
        batch that cannot be padded.
        """
        shapes = self._shapes(window) if self.demand.pads_next() else []
        return split_both(window, shapes) if shapes else ([], [])

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
        sizes = window.counts("graphs")
        full = sizes.count(self.batch_size)
        until = len(sizes) - (full < len(sizes) and sizes[-1] < 2)
        if not until or not (full or self.shapes.largest):
            return []
        return self.shapes.of(window, until, full)
