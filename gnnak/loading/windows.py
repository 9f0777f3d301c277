"""Many batches put together at once, then cut apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from gnnak.graphs import GraphBatch
from gnnak.graphs.real import BATCH_AXES
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.rooted import RootedSubgraphs

AXES = (*BATCH_AXES, "fillings")
"""What a window has rows of, each batch's together."""


@dataclass(frozen=True, eq=False)
class Window:
    """The graphs of many batches as one, and where each batch begins on every axis."""

    batch: GraphBatch
    """The graphs, batch after batch."""
    subgraphs: RootedSubgraphs | None
    """Rooted subgraphs, graph after graph; None where there are none."""
    node_targets: bool
    """Whether `batch.y` has a row for every node, rather than for every graph."""
    first: dict[str, Tensor]
    """By axis, [b + 1]: where each batch begins; the last entry is the end."""
    starts: dict[str, list[int]]
    """The same on the host."""
    known: dict[str, int | bool]
    """What every batch's record may know of itself: `max_hop` and `in_order`."""

    @property
    def num_batches(self) -> int:
        """Number of batches, b."""
        return len(self.starts["graphs"]) - 1

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes it has."""
        if self.subgraphs is None:
            return AXES[:3]
        return AXES if isinstance(self.subgraphs, SampledSubgraphs) else BATCH_AXES

    def counts(self, axis: str) -> list[int]:
        """How many rows each batch has on an axis, [b]."""
        return [end - begin for begin, end in pairwise(self.starts[axis])]


def open_window(
    batch: GraphBatch,
    subgraphs: RootedSubgraphs | None,
    sizes: Sequence[int],
    node_targets: bool = False,
) -> Window:
    """Find where each batch of a window begins; the host learns of it all at once.

    Args:
        batch: The graphs of all batches.
        subgraphs: Their rooted subgraphs, graph after graph; or None.
        sizes: How many graphs each batch has.
        node_targets: Whether targets belong to nodes.
    """
    ends = torch.tensor([0, *accumulate(sizes)]).to(batch.device, non_blocking=True)
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
            graph = batch.batch[filling.node]
            number = torch.searchsorted(ends, graph, right=True)
            filling = filling.at(torch.argsort(number, stable=True))
            subgraphs = replace(subgraphs, filling=filling)
        first["fillings"] = torch.searchsorted(batch.batch[filling.node], ends)
    *flat, max_hop, in_order = torch.cat([*first.values(), deepest, ordered]).tolist()
    rows = len(sizes) + 1
    starts = {
        axis: flat[index * rows : (index + 1) * rows]
        for index, axis in enumerate(first)
    }
    known = {"max_hop": max_hop, "in_order": bool(in_order)}
    return Window(batch, subgraphs, node_targets, first, starts, known)
