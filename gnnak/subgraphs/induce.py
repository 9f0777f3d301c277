"""Find the induced edges of rooted subgraphs from their nodes."""

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
"""Candidate edges tested at a time; bounds the memory used beyond the output."""


def find_sorted(keys: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """Look up every entry of `query` in the sorted `keys` by binary search.

    Returns:
        The position of each entry in `keys` and whether it was found, both shaped like
        `query`; the position is meaningless where the entry was not found.
    """
    if not keys.numel():
        return torch.zeros_like(query), torch.zeros_like(query, dtype=torch.bool)
    position = torch.searchsorted(keys, query).clamp_(max=keys.numel() - 1)
    return position, keys.index_select(0, position) == query


def induced_edges(
    node: Tensor, subgraph: Tensor, num_subgraphs: int, neighbors: Neighbors
) -> tuple[Tensor, Tensor]:
    """Return all edges with both ends in the same subgraph, as edges between copies.

    For each target copy there are two ways to find its edges: test all incoming edges
    of its node for a source inside the subgraph, or, if the in-degree is larger than
    the subgraph, test every copy of the subgraph for an edge to it. The cheaper one is
    used, so the number of tests is the sum over copies of
    min(in-degree, subgraph size). `CHUNK` bounds the extra memory.

    Args:
        node: Node of each copy, [m]; copies sorted by (subgraph, node).
        subgraph: Subgraph of each copy, [m].
        num_subgraphs: Number of subgraphs, s.
        neighbors: The graph's incoming edges.

    Returns:
        `edge_index` [2, f], sorted by (target, source, edge), and `edge` [f].
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
    """Return the subgraphs with their induced edges; edges they had are replaced.

    Args:
        subgraphs: Rooted subgraphs of all nodes or of some nodes.
        neighbors: The graph's incoming edges.
    """
    ends, edge = induced_edges(
        subgraphs.node, subgraphs.subgraph, subgraphs.num_subgraphs, neighbors
    )
    return replace(subgraphs, edge_index=ends, edge=edge)


class _Copies(NamedTuple):
    """The node copies, with the lookup tables that both edge searches use."""

    node: Tensor
    subgraph: Tensor
    key: Tensor
    """Sorted `subgraph * n + node`, [m]."""
    size: Tensor
    """Number of copies in each copy's subgraph, [m]."""
    first: Tensor
    """The first copy of each copy's subgraph, [m]."""

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
    """Call `find` on chunks of targets with about `CHUNK` candidate edges each."""
    runs = torch.tensor_split(target, chunk_cuts(work, CHUNK))
    parts = [find(run, copies, neighbors) for run in runs]
    if len(parts) == 1:
        return parts[0]
    return torch.cat([ends for ends, _ in parts], 1), torch.cat([e for _, e in parts])


def _from_edges(
    target: Tensor, copies: _Copies, neighbors: Neighbors
) -> tuple[Tensor, Tensor]:
    """Test all incoming edges of the targets for a source in the same subgraph."""
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
    """Test every copy of a target's subgraph for edges to the target."""
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
