"""Windows: several consecutive batches that are assembled together.

One large batch needs far fewer kernels than many small ones. All graphs of a window are
therefore assembled as one large batch, which is then split into its batches (see
`gnnak.loading.splitting`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from gnnak.graphs import GraphBatch
from gnnak.graphs.real import BATCH_AXES
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.encodings import extracted_encodings
from gnnak.subgraphs.rooted import RootedSubgraphs

AXES = (*BATCH_AXES, "fillings")
"""The axes of a window: its tensors have one row per graph, per node and so on, or per
entry of the `Filling` (the sparse matrix that estimates encodings of dropped roots from
sampled ones). On each axis, the rows of a batch are consecutive."""


@dataclass(frozen=True, eq=False)
class Window:
    """Several consecutive batches, assembled as one large batch.

    The fields `first` (on the device) and `starts` (the same numbers on the host) say
    at which row each batch starts.
    """

    batch: GraphBatch
    """The graphs of all batches, sorted by batch."""
    subgraphs: RootedSubgraphs | None
    """The rooted subgraphs, sorted by graph; None = batches have no subgraphs."""
    node_targets: bool
    """Whether the targets `batch.y` have one row per node; if not, one per graph."""
    first: dict[str, Tensor]
    """For each axis, such as "nodes", the position of the first row of each of the b
    batches, and at the end the number of all rows, [b + 1]; on the batch's device."""
    starts: dict[str, list[int]]
    """For each axis, such as "nodes", the position of the first row of each batch, and
    at the end the number of all rows; the numbers in `first`, on the host."""
    known: dict[str, int | bool]
    """`max_hop` (the largest distance of a node to its root) and `in_order` (whether
    subgraph i is rooted at node i for all i), over all subgraphs of the window."""
    extra: dict[str, tuple[str, Tensor]] = field(default_factory=dict)
    """Further fields by name: the axis that they have rows on, such as "nodes", and
    the rows of all batches."""

    @property
    def num_batches(self) -> int:
        """Number of batches in the window, b."""
        return len(self.starts["graphs"]) - 1

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes on which this window has rows, such as "nodes" and "edges".

        A window without rooted subgraphs has graphs, nodes and edges. Otherwise it also
        has subgraphs, their nodes and their edges, and with SubgraphDrop the entries of
        the `Filling`, the matrix that estimates encodings of dropped roots.
        """
        if self.subgraphs is None:
            return AXES[:3]
        return AXES if isinstance(self.subgraphs, SampledSubgraphs) else BATCH_AXES

    def counts(self, axis: str) -> list[int]:
        """Return the number of rows of each batch on an axis, for example "nodes"."""
        return [end - begin for begin, end in pairwise(self.starts[axis])]


def make_window(
    batch: GraphBatch,
    subgraphs: RootedSubgraphs | None,
    sizes: Sequence[int],
    node_targets: bool = False,
    extra: Mapping[str, tuple[str, Tensor]] | None = None,
) -> Window:
    """Make a window from several batches that were assembled as one large batch.

    This finds where the graphs, nodes, edges and so on of each batch start, and
    synchronises with the device only once.

    Args:
        batch: The graphs of all batches, sorted by batch.
        subgraphs: The rooted subgraphs of these graphs, sorted by graph; None = no
            subgraphs.
        sizes: Number of graphs of each batch.
        node_targets: Whether `batch.y` has one row per node instead of per graph.
        extra: Further fields by name: the axis that they have rows on, such as "nodes",
            and the rows of all batches; None = there are none.
    """
    ends = torch.tensor([0, *accumulate(sizes)], device="cpu")
    ends = ends.to(batch.device, non_blocking=True)
    first = {
        "graphs": ends,
        "nodes": batch.ptr[ends],
        "edges": torch.searchsorted(batch.batch[batch.edge_index[0]], ends),
    } | dict.fromkeys(AXES[3:], torch.zeros_like(ends))
    deepest, ordered = ends.new_full((1,), -1), ends.new_zeros(1)
    if subgraphs is not None:
        target = subgraphs.edge_index[1].contiguous()
        root = torch.searchsorted(batch.batch[subgraphs.root], ends)
        copy = torch.searchsorted(subgraphs.subgraph, root)
        edge_copy = torch.searchsorted(target, copy)
        first |= {"subgraphs": root, "copies": copy, "edge_copies": edge_copy}
        if subgraphs.num_copies:
            deepest = subgraphs.hop.max()[None]
        sampled = isinstance(subgraphs, SampledSubgraphs)
        if not sampled and subgraphs.num_subgraphs == batch.num_nodes:
            nodes = torch.arange(batch.num_nodes, device=batch.device)
            ordered = (subgraphs.root == nodes).all().long()[None]
    if isinstance(subgraphs, SampledSubgraphs):
        filling = subgraphs.filling
        if not filling.in_order:
            # Sort the entries of the filling by batch.
            graph = batch.batch[filling.node]
            number = torch.searchsorted(ends, graph, right=True)
            filling = filling.at(torch.argsort(number, stable=True))
            encodings = extracted_encodings(subgraphs)
            subgraphs = replace(subgraphs, filling=filling).assume(**encodings)
        first["fillings"] = torch.searchsorted(batch.batch[filling.node], ends)
    *flat, max_hop, in_order = torch.cat([*first.values(), deepest, ordered]).tolist()
    rows = len(sizes) + 1
    starts = {
        axis: flat[index * rows : (index + 1) * rows]
        for index, axis in enumerate(first)
    }
    known = {"max_hop": max_hop, "in_order": bool(in_order)}
    return Window(
        batch, subgraphs, node_targets, first, starts, known, dict(extra or {})
    )
