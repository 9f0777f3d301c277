"""Find the induced edges of rooted subgraphs, given the nodes of each subgraph.

A node copy is a node as seen in one rooted subgraph; an edge copy joins two node copies
of the same subgraph.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from gnnak.graphs.adjacency import Neighbors
from gnnak.graphs.ragged import chunk_cuts, counts_of, pointers, ragged_ranges
from gnnak.subgraphs.rooted import RootedSubgraphs

Record = TypeVar("Record", bound=RootedSubgraphs)
CHUNK = 1 << 21
"""Largest number of candidate edges that are tested at a time, approximately. It bounds
the temporary memory."""


def find_sorted(keys: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """Look up every entry of `query` in the sorted vector `keys` by binary search.

    Returns:
        The position in `keys` of each entry of `query`, and a boolean mask that is True
        where the entry was found; both are shaped like `query`. Positions of entries
        that were not found are meaningless.
    """
    if not keys.numel():
        return torch.zeros_like(query), torch.zeros_like(query, dtype=torch.bool)
    position = torch.searchsorted(keys, query).clamp_(max=keys.numel() - 1)
    return position, keys.index_select(0, position) == query


def induced_edges(
    node: Tensor, subgraph: Tensor, num_subgraphs: int, neighbors: Neighbors
) -> tuple[Tensor, Tensor]:
    """Find, in every subgraph, all edges of the graph with both ends in that subgraph.

    There are two ways to find the incoming edges of a node copy: test all incoming
    edges of its node for a source inside the subgraph, or test every node copy of the
    subgraph for an edge to it. The second way is used if the in-degree of the node is
    larger than the subgraph. The number of tests is the sum over all node copies of
    min(in-degree, subgraph size). `CHUNK` bounds the temporary memory.

    Args:
        node: The node of each node copy, [m]; sorted by (subgraph, node).
        subgraph: The subgraph of each node copy, [m].
        num_subgraphs: Number of subgraphs, s.
        neighbors: The graph's incoming edges.

    Returns:
        Source and target node copy of every edge copy, [2, f], sorted by (target,
        source, edge), and the edge of the graph that each is a copy of, [f].
    """
    copies = _Copies.of(node, subgraph, num_subgraphs, neighbors)
    in_degree = neighbors.rows(node)[1]
    is_hub = in_degree > copies.size
    every = torch.arange(node.numel(), device=node.device)
    if not bool(is_hub.any()):
        return _in_chunks(_from_edges, every, in_degree, copies, neighbors)
    normal, hubs = every[~is_hub], every[is_hub]
    ends, edge = zip(
        _in_chunks(_from_edges, normal, in_degree[normal], copies, neighbors),
        _in_chunks(_from_members, hubs, copies.size[hubs], copies, neighbors),
        strict=True,
    )
    order = torch.argsort(torch.cat(ends, dim=1)[1], stable=True)
    return torch.cat(ends, dim=1)[:, order], torch.cat(edge)[order]


def with_edges(subgraphs: Record, neighbors: Neighbors) -> Record:
    """Return the subgraphs with all induced edges in place of the edges they had.

    Args:
        subgraphs: Rooted subgraphs of all nodes or of some nodes; edges are ignored.
        neighbors: The graph's incoming edges.
    """
    ends, edge = induced_edges(
        subgraphs.node, subgraphs.subgraph, subgraphs.num_subgraphs, neighbors
    )
    return replace(subgraphs, edge_index=ends, edge=edge)


class _Copies(NamedTuple):
    """All nodes of all rooted subgraphs, with tables to look them up."""

    node: Tensor
    subgraph: Tensor
    key: Tensor
    """`subgraph * n + node` of each node copy, [m], sorted, for binary search."""
    size: Tensor
    """Number of nodes of the subgraph that each node copy is in, [m]."""
    first: Tensor
    """The first node copy of the subgraph that each node copy is in, [m]."""

    @staticmethod
    def of(
        node: Tensor, subgraph: Tensor, num_subgraphs: int, neighbors: Neighbors
    ) -> "_Copies":
        sizes = counts_of(subgraph, num_subgraphs)
        return _Copies(
            node,
            subgraph,
            key=subgraph * neighbors.num_nodes + node,
            size=sizes.index_select(0, subgraph),
            first=pointers(sizes).index_select(0, subgraph),
        )


def _in_chunks(
    find: Callable[[Tensor, _Copies, Neighbors], tuple[Tensor, Tensor]],
    target: Tensor,
    work: Tensor,
    copies: _Copies,
    neighbors: Neighbors,
) -> tuple[Tensor, Tensor]:
    """Call `find` on a part of the targets at a time, to bound the memory."""
    runs = torch.tensor_split(target, chunk_cuts(work, CHUNK))
    parts = [find(run, copies, neighbors) for run in runs]
    if len(parts) == 1:
        return parts[0]
    return torch.cat([ends for ends, _ in parts], 1), torch.cat([e for _, e in parts])


def _from_edges(
    target: Tensor, copies: _Copies, neighbors: Neighbors
) -> tuple[Tensor, Tensor]:
    """Find the incoming edges of nodes inside their rooted subgraphs.

    Tests for every incoming edge of a node whether its source is in the subgraph too.
    """
    start, in_degree = neighbors.rows(copies.node.index_select(0, target))
    row, entry = ragged_ranges(start, in_degree)
    target = target.index_select(0, row)
    source_node = neighbors.node.index_select(0, entry)
    subgraph = copies.subgraph.index_select(0, target)
    key = subgraph * neighbors.num_nodes + source_node
    source, found = find_sorted(copies.key, key)
    keep = found.nonzero().flatten()
    ends = [source.index_select(0, keep), target.index_select(0, keep)]
    return torch.stack(ends), neighbors.edge.index_select(
        0, entry.index_select(0, keep)
    )


def _from_members(
    target: Tensor, copies: _Copies, neighbors: Neighbors
) -> tuple[Tensor, Tensor]:
    """Find the incoming edges of nodes inside their rooted subgraphs.

    Tests for every other node of the subgraph whether it has an edge to the node.
    """
    start, size = copies.first[target], copies.size[target]
    row, source = ragged_ranges(start, size)
    target = target.index_select(0, row)
    target_node = copies.node.index_select(0, target)
    wanted = target_node * neighbors.num_nodes + copies.node.index_select(0, source)
    low = torch.searchsorted(neighbors.key, wanted)
    duplicates = torch.searchsorted(neighbors.key, wanted, right=True) - low
    pair, entry = ragged_ranges(low, duplicates)
    edge_index = torch.stack([source[pair], target[pair]])
    return edge_index, neighbors.edge.index_select(0, entry)
