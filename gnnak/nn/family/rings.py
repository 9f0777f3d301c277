"""Rings of egonets: the nodes of an egonet, divided by their distance to the root."""

from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of, pointers
from gnnak.graphs.real import RealCounts
from gnnak.subgraphs.rooted import RootedSubgraphs


class Rings(NamedTuple):
    """The rings of all egonets: ring r has the nodes at distance r from their root."""

    node: tuple[Tensor, ...]
    """For each ring, the node of the graph of each of its rows."""
    edges: dict[tuple[int, int], Tensor]
    """The edges from one ring to the same or the next inner ring, as rows of source and
    target ring, [2, edges]; by source and target ring. In padded rings, other edges
    have a column, too, and join padding rows."""
    num_rows: tuple[Tensor | None, ...]
    """For each ring, the number of rows that are not padding, as a 0-dim tensor; None =
    there is no padding."""


def find_rings(subgraphs: RootedSubgraphs, num_hops: int) -> Rings:
    """Divide egonets into rings; cached after first use.

    The rings of padded egonets are padded, too, to sizes that depend only on the sizes
    of the egonets' tensors. They are found without synchronising with a GPU.

    Args:
        subgraphs: The egonets.
        num_hops: The outermost ring.
    """

    def find() -> Rings:
        if subgraphs.real is None:
            return _exact_rings(subgraphs, num_hops)
        return _padded_rings(subgraphs, subgraphs.real, num_hops)

    return subgraphs.once(f"{num_hops} rings", find)


def _exact_rings(subgraphs: RootedSubgraphs, num_hops: int) -> Rings:
    """Divide egonets without padding into rings without padding."""
    nodes: list[Tensor] = []
    rank = torch.empty_like(subgraphs.hop)
    for hop in range(num_hops + 1):
        ring = (subgraphs.hop == hop).nonzero().flatten()
        rank[ring] = torch.arange(ring.numel(), device=rank.device)
        nodes.append(subgraphs.node.index_select(0, ring))
    hops = subgraphs.hop[subgraphs.edge_index]
    edges = {
        (hop, target): rank[subgraphs.edge_index[:, _joins(hops, hop, target)]]
        for hop in range(1, num_hops + 1)
        for target in (hop - 1, hop)
    }
    return Rings(tuple(nodes), edges, (None,) * (num_hops + 1))


def _padded_rings(subgraphs: RootedSubgraphs, real: RealCounts, num_hops: int) -> Rings:
    """Divide padded egonets into padded rings, each with at least one padding row."""
    copies = torch.arange(subgraphs.num_copies, device=subgraphs.device)
    has_ring = (copies < real.copies) & (subgraphs.hop >= 0)
    has_ring &= subgraphs.hop <= num_hops
    hop = torch.where(has_ring, subgraphs.hop, num_hops + 1)
    order = hop.argsort(stable=True)  # ring by ring, then the copies without a ring
    count = counts_of(hop, num_hops + 2)
    first = pointers(count)
    rank = torch.empty_like(order).index_copy(0, order, copies) - first[hop]

    def ring(number: int) -> Tensor:
        row = torch.arange(_most_rows(subgraphs, number) + 1, device=order.device)
        row = (first[number] + row).clamp(max=order.numel() - 1)
        return subgraphs.node.index_select(0, order.index_select(0, row))

    nodes = tuple(ring(number) for number in range(num_hops + 1))
    hops, ranks = hop[subgraphs.edge_index], rank[subgraphs.edge_index]
    column = torch.arange(subgraphs.num_edge_copies, device=order.device)

    def padding(number: int) -> Tensor:
        """Return a padding row of a ring for each edge, spread over all such rows."""
        return count[number] + column % (nodes[number].numel() - count[number])

    edges = {}
    for number in range(1, num_hops + 1):
        for target in (number - 1, number):
            unused = torch.stack([padding(number), padding(target)])
            joined = _joins(hops, number, target)
            edges[number, target] = torch.where(joined, ranks, unused)
    return Rings(nodes, edges, count[: num_hops + 1].unbind())


def _joins(hops: Tensor, source: int, target: int) -> Tensor:
    """Return whether each edge goes from one given ring to another, [f].

    Args:
        hops: The rings of the source and the target of each of the f edges, [2, f].
        source: The ring where the edge must start.
        target: The ring where the edge must end.
    """
    return (hops[0] == source) & (hops[1] == target)


def _most_rows(subgraphs: RootedSubgraphs, number: int) -> int:
    """Return an upper bound on the number of rows of a ring.

    Ring 0 has one node per egonet. Every node of ring 1 has its own edge to the root.
    """
    copies, edges = subgraphs.num_copies, subgraphs.num_edges
    if number == 0:
        return subgraphs.num_subgraphs
    return min(copies, edges) if number == 1 and edges is not None else copies
