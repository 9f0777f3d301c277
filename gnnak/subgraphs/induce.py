"""From the nodes of rooted subgraphs to their induced edges."""

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
"""Candidate pairs looked at in one go: bounds the memory beyond the output."""


def find_sorted(keys: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """Look `query` up in the sorted `keys`: (position, whether it is there)."""
    if not keys.numel():
        return torch.zeros_like(query), torch.zeros_like(query, dtype=torch.bool)
    position = torch.searchsorted(keys, query).clamp_(max=keys.numel() - 1)
    return position, keys.index_select(0, position) == query


def induced_edges(
    node: Tensor, subgraph: Tensor, num_subgraphs: int, neighbors: Neighbors
) -> tuple[Tensor, Tensor]:
    """All edges with both ends in one subgraph, as edges between copies.

    Each copy either walks its incoming edges and keeps those from its subgraph, or,
    where its node has more edges than the subgraph has copies (a hub at the rim),
    asks for every copy of the subgraph whether the edge exists. The work is thus at
    most the sum over copies of min(in-degree, subgraph size), and the extra memory is
    bounded by `CHUNK`.

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
    crowded = in_degree > copies.size
    every = torch.arange(node.numel(), device=node.device)
    if not bool(crowded.any()):
        return _in_chunks(_from_edges, every, in_degree, copies, neighbors)
    few, many = every[~crowded], every[crowded]
    ends, edge = zip(
        _in_chunks(_from_edges, few, in_degree[few], copies, neighbors),
        _in_chunks(_from_members, many, copies.size[many], copies, neighbors),
        strict=True,
    )
    order = torch.argsort(torch.cat(ends, dim=1)[1], stable=True)
    return torch.cat(ends, dim=1)[:, order], torch.cat(edge)[order]


def with_edges(subgraphs: Record, neighbors: Neighbors) -> Record:
    """The same subgraphs with all edges between their copies, whatever they have.

    Args:
        subgraphs: Rooted subgraphs, whole or some of them.
        neighbors: The graph's incoming edges.
    """
    ends, edge = induced_edges(
        subgraphs.node, subgraphs.subgraph, subgraphs.num_subgraphs, neighbors
    )
    return replace(subgraphs, edge_index=ends, edge=edge)


class _Copies(NamedTuple):
    """What both ways of finding edges need to know of the copies."""

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
    """Call `find` on runs of target copies of about `CHUNK` work each."""
    runs = torch.tensor_split(target, chunk_cuts(work, CHUNK))
    parts = [find(run, copies, neighbors) for run in runs]
    if len(parts) == 1:
        return parts[0]
    return torch.cat([ends for ends, _ in parts], 1), torch.cat([e for _, e in parts])


def _from_edges(
    target: Tensor, copies: _Copies, neighbors: Neighbors
) -> tuple[Tensor, Tensor]:
    """Walk the incoming edges of the target copies; keep those from the subgraph."""
    start, in_degree = neighbors.rows(copies.node.index_select(0, target))
    row, entry = ragged_ranges(start, in_degree)
    target = target.index_select(0, row)
    source_node = neighbors.node.index_select(0, entry)
    home = copies.subgraph.index_select(0, target) * neighbors.num_nodes
    source, found = find_sorted(copies.key, home + source_node)
    keep = found.nonzero().flatten()
    ends = [source.index_select(0, keep), target.index_select(0, keep)]
    return torch.stack(ends), neighbors.edge.index_select(
        0, entry.index_select(0, keep)
    )


def _from_members(
    target: Tensor, copies: _Copies, neighbors: Neighbors
) -> tuple[Tensor, Tensor]:
    """Ask every copy of the targets' subgraphs for its edges to the target copies."""
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
