"""Find the edges inside rooted subgraphs, and the edges across rooted subgraphs."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from gnnak.errors import SubgraphError
from gnnak.graphs.adjacency import Neighbors, incoming
from gnnak.graphs.ragged import (
    chunk_cuts,
    counts_of,
    pointers,
    ragged_ranges,
    ragged_ranges_to,
    range_ends,
)
from gnnak.subgraphs.copy_limit import CopyLimit
from gnnak.subgraphs.rooted import RootedSubgraphs

Record = TypeVar("Record", bound=RootedSubgraphs)
CHUNK = 1 << 21
"""Approximate number of candidate edges that are tested at a time, to bound memory."""
FEW_EDGES = 8
"""If node copies have at most this many incoming edges on average, all these edges are
tested, without comparing in-degrees with the sizes of subgraphs."""
SAMPLE = 4096
"""Number of node copies from which `_estimate` estimates the number of edges."""


def find_sorted(keys: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """Return each query's position in the sorted `keys`, and whether `keys` has it."""
    if not keys.numel():
        return torch.zeros_like(query), torch.zeros_like(query, dtype=torch.bool)
    position = torch.searchsorted(keys, query).clamp_(max=keys.numel() - 1)
    return position, keys.index_select(0, position) == query


def induced_edges(
    node: Tensor,
    subgraph: Tensor,
    num_subgraphs: int,
    neighbors: Neighbors,
    limit: CopyLimit | None = None,
) -> tuple[Tensor, Tensor]:
    """Find, for every subgraph, all edges of the graph with both ends in the subgraph.

    `node` and `subgraph`, [m], are sorted by (subgraph, node). For each node copy, the
    search tests whether the source of each incoming edge is in the subgraph. If there
    are more incoming edges than nodes in the subgraph, it tests instead whether each of
    these nodes has an edge to the node. Returns `edge_index` and `edge` as in
    `RootedSubgraphs`.
    """
    limit = limit or CopyLimit(None, node.device)
    stop = neighbors.ptr[1:].index_select(0, node)
    in_degree = stop - neighbors.ptr.index_select(0, node)
    (end, work), num_copies = range_ends(in_degree), node.numel()
    few = min(FEW_EDGES * num_copies, CHUNK)
    if work <= few and not limit.is_below(num_copies + work):
        target, entry = ragged_ranges_to(stop, in_degree, end, work)
        key = torch.add(node, subgraph, alpha=neighbors.num_nodes)
        return _inside(target, entry, subgraph, key, neighbors)
    del stop, end
    copies = _Copies.of(node, subgraph, num_subgraphs, neighbors)
    is_hub = in_degree > copies.size
    every = torch.arange(node.numel(), device=node.device)
    if not bool(is_hub.any()):
        return _in_chunks(_from_edges, every, in_degree, copies, neighbors, limit)
    normal, hubs = every[~is_hub], every[is_hub]
    first = _in_chunks(_from_edges, normal, in_degree[normal], copies, neighbors, limit)
    sizes, before = copies.size[hubs], first[1].numel()
    second = _in_chunks(_from_members, hubs, sizes, copies, neighbors, limit, before)
    ends, edge = torch.cat([first[0], second[0]], 1), torch.cat([first[1], second[1]])
    order = torch.argsort(ends[1], stable=True)
    return ends[:, order], edge[order]


def with_edges(
    subgraphs: Record, neighbors: Neighbors, limit: CopyLimit | None = None
) -> Record:
    """Add to each subgraph all edges of the graph that join two of its nodes."""
    ends, edge = induced_edges(
        subgraphs.node, subgraphs.subgraph, subgraphs.num_subgraphs, neighbors, limit
    )
    return replace(subgraphs, edge_index=ends, edge=edge)


class _Copies(NamedTuple):
    """The node and the subgraph of all m node copies, with lookup tables, each [m]."""

    node: Tensor
    subgraph: Tensor
    key: Tensor
    """`subgraph * n + node`; sorted, for binary search."""
    size: Tensor
    """The number of nodes of the subgraph."""
    first: Tensor
    """The first node copy of the same subgraph."""

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


Finder = Callable[[Tensor, _Copies, Neighbors], tuple[Tensor, Tensor]]
"""Finds the edges that end at some node copies; see `_from_edges`."""


def _in_chunks(
    find: Finder,
    target: Tensor,
    work: Tensor,
    copies: _Copies,
    neighbors: Neighbors,
    limit: CopyLimit,
    before: int = 0,
) -> tuple[Tensor, Tensor]:
    """Call `find` on chunks of `target`, to bound the memory; concatenate the results.

    `work` is the number of edges that `find` tests for each target, `before` the number
    of edges found by earlier calls.
    """
    total, cuts = copies.node.numel() + before, chunk_cuts(work, CHUNK)
    if cuts and limit.is_below(total + int(work.sum())):
        estimate = _estimate(find, target, work, copies, neighbors)
        limit.check(total + estimate, "about")
    parts = []
    for run in torch.tensor_split(target, cuts):
        parts.append(find(run, copies, neighbors))
        total += parts[-1][1].numel()
        limit.check(total)
    if len(parts) == 1:
        return parts[0]
    return torch.cat([ends for ends, _ in parts], 1), torch.cat([e for _, e in parts])


def _estimate(
    find: Finder, target: Tensor, work: Tensor, copies: _Copies, neighbors: Neighbors
) -> float:
    generator = torch.Generator("cpu").manual_seed(0)
    size = (SAMPLE,)
    sample = torch.randint(target.numel(), size, generator=generator, device="cpu")
    sample = sample.to(target.device)
    tests = work.index_select(0, sample).cumsum(0)
    sample = sample[: max(int((tests <= CHUNK).sum()), 1)]
    _, edges = find(target.index_select(0, sample), copies, neighbors)
    return edges.numel() / sample.numel() * target.numel()


def _from_edges(
    target: Tensor, copies: _Copies, neighbors: Neighbors
) -> tuple[Tensor, Tensor]:
    """Find the edges that end at the copies `target`, by testing all incoming edges."""
    start, in_degree = neighbors.rows(copies.node.index_select(0, target))
    row, entry = ragged_ranges(start, in_degree)
    target = target.index_select(0, row)
    return _inside(target, entry, copies.subgraph, copies.key, neighbors)


def _inside(
    target: Tensor, entry: Tensor, subgraph: Tensor, key: Tensor, neighbors: Neighbors
) -> tuple[Tensor, Tensor]:
    """Select those candidate edges whose source is in the subgraph of their target.

    The candidates are the edges with positions `entry` in `neighbors`, and end at the
    node copies `target`.
    """
    source_node = neighbors.node.index_select(0, entry)
    of_target = subgraph.index_select(0, target)
    wanted = torch.add(source_node, of_target, alpha=neighbors.num_nodes)
    source, found = find_sorted(key, wanted)
    keep = found.nonzero().flatten()
    ends = torch.stack([source.index_select(0, keep), target.index_select(0, keep)])
    return ends, neighbors.edge.index_select(0, entry.index_select(0, keep))


def _from_members(
    target: Tensor, copies: _Copies, neighbors: Neighbors
) -> tuple[Tensor, Tensor]:
    """Find what `_from_edges` finds, by testing all nodes of the target's subgraph."""
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


class AcrossEdges(NamedTuple):
    """The `a` edges between copies of one node in different rooted subgraphs."""

    edge_index: Tensor
    """[2, a], in 0..m-1: source and target node copy of each edge."""
    edge: Tensor
    """[a], in 0..e-1: the edge of the graph that joins the two roots."""


def across_edges(subgraphs: RootedSubgraphs, edge_index: Tensor) -> AcrossEdges:
    r"""Find all edges across rooted subgraphs; cached after first use.

    For every edge $u' \to u$ of the graph, and every node $v$ that is both in the
    subgraph rooted at $u'$ and in the subgraph rooted at $u$, there is an edge from the
    copy of $v$ in the first subgraph to the copy of $v$ in the second: $(u', v) \to (u,
    v)$. Roots that SubgraphDrop has dropped have no edges. The edges are sorted by
    target.

    Args:
        subgraphs: The rooted subgraphs.
        edge_index: Directed edges of the graph, [2, e].

    >>> from gnnak.subgraphs import whole_graphs
    >>> pair = torch.tensor([[0, 1], [1, 0]])
    >>> across_edges(whole_graphs(pair, 2), pair)
    AcrossEdges(edge_index=tensor([[2, 3, 0, 1],
            [0, 1, 2, 3]]), edge=tensor([1, 1, 0, 0]))
    """
    return subgraphs.once(AcrossEdges, lambda: _across(subgraphs, edge_index), False)


def across_whole(subgraphs: RootedSubgraphs, edge_index: Tensor) -> AcrossEdges:
    r"""Find all edges across whole graphs, without synchronising with a GPU.

    In whole graphs, the pair $(u, v)$ of root and node has a transposed pair $(v, u)$,
    and transposing both ends of the edge $(v, u') \to (v, u)$ inside the subgraph of
    $v$ gives the edge $(u', v) \to (u, v)$ across subgraphs. The result has the edges
    of `across_edges` in another order. Padding rows are allowed. Cached after first
    use.

    Args:
        subgraphs: The result of `WholeGraphs`; checked only on a CPU.
        edge_index: Directed edges of the graph, [2, e].
    """
    return subgraphs.once(
        AcrossEdges, lambda: _across_whole(subgraphs, edge_index), True
    )


def _across_whole(subgraphs: RootedSubgraphs, edge_index: Tensor) -> AcrossEdges:
    size, device = subgraphs.known_num_nodes, subgraphs.device
    number = torch.arange(subgraphs.num_subgraphs, device=device)
    rooted_at = number.new_zeros(size).index_copy(0, subgraphs.root, number)
    root = subgraphs.root.index_select(0, subgraphs.subgraph)
    key = subgraphs.subgraph * size + subgraphs.node
    query = rooted_at.index_select(0, subgraphs.node) * size + root
    # Padding rows come last and have larger keys than all other rows.
    swapped, found = find_sorted(key, query)
    if subgraphs.real is not None:
        row = torch.arange(subgraphs.num_copies, device=device)
        swapped = torch.where(row < subgraphs.real.copies, swapped, row)
    elif device.type == "cpu":
        in_degree = counts_of(edge_index[1], size)
        wanted = int(in_degree.index_select(0, root).sum())
        if not bool(found.all()) or wanted != subgraphs.num_edge_copies:
            raise SubgraphError(
                "this layer was built for whole graphs, but got other subgraphs; give "
                "the result of gnnak.WholeGraphs, or build the layer with whole=False."
            )
    return AcrossEdges(swapped[subgraphs.edge_index], subgraphs.edge)


def _across(subgraphs: RootedSubgraphs, edge_index: Tensor) -> AcrossEdges:
    size = subgraphs.known_num_nodes
    neighbors = incoming(edge_index, size)
    root = subgraphs.root.index_select(0, subgraphs.subgraph)
    start, count = neighbors.rows(root)
    target, entry = ragged_ranges(start, count)
    rooted_at = torch.full((size,), -1, dtype=torch.long, device=subgraphs.device)
    number = torch.arange(subgraphs.num_subgraphs, device=subgraphs.device)
    rooted_at = rooted_at.index_copy(0, subgraphs.root, number)
    other = rooted_at.index_select(0, neighbors.node.index_select(0, entry))
    node = subgraphs.node.index_select(0, target)
    key = subgraphs.subgraph * size + subgraphs.node
    source, found = find_sorted(key, other * size + node)
    kept = (found & (other >= 0)).nonzero().flatten()
    ends = torch.stack([source, target]).index_select(1, kept)
    edge = neighbors.edge.index_select(0, entry.index_select(0, kept))
    return AcrossEdges(ends, edge)
