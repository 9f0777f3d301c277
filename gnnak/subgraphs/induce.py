"""Find the edges inside rooted subgraphs, and the edges across rooted subgraphs."""

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.errors import SubgraphError
from gnnak.graphs.adjacency import Neighbors, hops_to_root, incoming
from gnnak.graphs.ragged import (
    chunk_cuts,
    counts_of,
    distinct,
    pointers,
    ragged_ranges,
    ragged_ranges_to,
    range_ends,
    sort_pairs,
)
from gnnak.subgraphs.copy_limit import CopyLimit
from gnnak.subgraphs.rooted import RootedSubgraphs

CHUNK = 1 << 20
"""Approximate number of pairs of nodes that are tested at a time, to bound memory."""
FEW_EDGES = 8
"""`induced_edges` tests the edges one by one if at most this many tests are needed per
node copy, or per edge of the graph. Otherwise, it tests pairs of nodes."""
SAMPLE = 256
"""Number of subgraphs from which `_estimate` estimates the number of edges."""
TABLE = 1 << 24
"""On a CPU, node copies are looked up in a table of at most this many entries."""
MIN_ROWS = 64
"""The lookup table (see `TABLE`) is used only if this many subgraphs fit into it."""


def find_sorted(keys: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """Return each query's position in the sorted `keys`, and whether it was found."""
    if not keys.numel():
        return torch.zeros_like(query), torch.zeros_like(query, dtype=torch.bool)
    position = torch.searchsorted(keys, query).clamp_(max=keys.numel() - 1)
    return position, keys.index_select(0, position) == query


@operation
def induced_edges(
    node: Tensor,
    subgraph: Tensor,
    num_subgraphs: int,
    neighbors: Neighbors,
    limit: CopyLimit | None = None,
) -> tuple[Tensor, Tensor]:
    """Return `edge_index`, [2, f], and `edge`, [f], of the edges inside the subgraphs.

    Node copies, [m], must be sorted by (subgraph, node). There are three
    algorithms; the degrees and the sizes of the subgraphs decide which one runs.
    """
    limit = limit or CopyLimit(None, node.device)
    stop = neighbors.ptr[1:].index_select(0, node)
    in_degree = stop - neighbors.ptr.index_select(0, node)
    (end, work), num_copies = range_ends(in_degree), node.numel()
    few = FEW_EDGES * max(num_copies, neighbors.edge.numel())
    if work <= min(few, CHUNK) and not limit.is_below(num_copies + work):
        target, entry = ragged_ranges_to(stop, in_degree, end, work)
        key = torch.add(node, subgraph, alpha=neighbors.num_nodes)
        return _inside(target, entry, subgraph, key, neighbors)
    sizes = counts_of(subgraph, num_subgraphs)
    first = pointers(sizes)
    most = torch.minimum(in_degree, sizes.index_select(0, subgraph))
    work = int(most.sum())
    if work <= few and not limit.is_below(num_copies + work):
        return _of_few(node, subgraph, first, most, neighbors, limit)
    del stop, end, in_degree, most
    pairs = joined_pairs(neighbors)
    tests = pointers(pairs.ptr.diff().index_select(0, node))[first].diff()
    total = int(tests.sum())
    if limit.is_below(num_copies + 2 * total):
        edges = _estimate(node, first, tests, pairs, neighbors) * total
        limit.check(num_copies + edges, "about")
    size = max(neighbors.num_nodes, 1)
    rows = TABLE // size if node.device.type == "cpu" else 0
    # Each copy counts as a test, so that a chunk has few copies, too.
    work_of, table = tests + sizes, None
    if rows >= MIN_ROWS:
        work_of = work_of.clamp(min=-(-CHUNK // rows))
    cuts = sorted({0, *chunk_cuts(work_of, CHUNK), num_subgraphs})
    if rows >= MIN_ROWS:
        rows = max(high - low for low, high in pairwise(cuts))
        table = torch.full((rows * size,), -1, dtype=torch.int32)
    bounds = first[torch.tensor(cuts, device=first.device)].tolist()
    parts, found = [], num_copies
    for start, low, high in zip(cuts, bounds, bounds[1:], strict=False):
        run = slice(low, high)
        ends, edge = _joined(node[run], subgraph[run] - start, pairs, neighbors, table)
        parts.append((ends.add_(low), edge))
        found += edge.numel()
        limit.check(found)
    if len(parts) == 1:
        return parts[0]
    return torch.cat([ends for ends, _ in parts], 1), torch.cat([e for _, e in parts])


def induced_subgraphs(
    root: Tensor, key: Tensor, neighbors: Neighbors, max_hops: int, limit: CopyLimit
) -> RootedSubgraphs:
    """Return the subgraphs with the node copies `key`, [m], and all edges between them.

    `key` is sorted. It has the number `i * n + v` for each node v of the subgraph of
    root number i, including the root. A node copy has `hop` -1 if no path to its root
    has at most `max_hops` edges.
    """
    size, num_edges = max(neighbors.num_nodes, 1), neighbors.edge.numel()
    subgraph = key // size
    node = torch.sub(key, subgraph, alpha=size)
    ends, edge = induced_edges(node, subgraph, root.numel(), neighbors, limit)
    number = torch.arange(root.numel(), device=root.device)
    centroid = torch.searchsorted(key, torch.add(root, number, alpha=size))
    hop = hops_to_root(ends, centroid, node.numel(), max_hops)
    num_nodes = neighbors.num_nodes
    found = RootedSubgraphs(root, node, subgraph, hop, ends, edge, num_nodes, num_edges)
    return found.assume(centroid=centroid, hop_range=(-1, max_hops))


class Pairs(NamedTuple):
    """All pairs of adjacent nodes, in CSR form; parallel edges give several pairs.

    The row of node v has pairs (v, other). A pair is only in the row of its node with
    fewer edges, so that hubs have few pairs.
    """

    ptr: Tensor
    """[n + 1]: row pointer; there is one row per node."""
    other: Tensor
    """[pairs]: for each pair in the row of a node, the other node of the pair."""
    inward: Tensor
    """[pairs]: position of the edge other -> v among all edges to v; -1 if there is no
    such edge."""
    outward: Tensor
    """[pairs]: position of the edge v -> other among all edges to `other`; -1 if there
    is no such edge."""
    bits: int
    """Number of bits of the largest number in `inward` and `outward`."""
    one_way: bool
    """Whether some edge has no opposite edge, so `inward` or `outward` has a -1."""


def joined_pairs(neighbors: Neighbors) -> Pairs:
    """List every pair of nodes that an edge joins, and the edges in both directions."""
    size, source = max(neighbors.num_nodes, 1), neighbors.node
    target = neighbors.key // size
    entry = torch.arange(source.numel(), device=source.device)
    position = entry - neighbors.ptr.index_select(0, target)
    # Parallel edges are numbered; pairs with different numbers are different pairs.
    number = entry - torch.searchsorted(neighbors.key, neighbors.key)
    most, bits = 1, 0
    if entry.numel():
        largest = torch.stack([number.max(), position.max()]).tolist()
        most, bits = largest[0] + 1, largest[1].bit_length()
    every = torch.arange(neighbors.num_nodes, device=source.device)
    degree = neighbors.ptr.diff() + counts_of(source, neighbors.num_nodes)
    rank = torch.add(every, degree, alpha=size)
    is_inward = rank.index_select(0, target) <= rank.index_select(0, source)
    lister = torch.where(is_inward, target, source)
    key = (lister * (size - 1) + target + source) * most + number
    pair = distinct(key)
    place, missing = torch.searchsorted(pair, key), pair.new_full(pair.shape, -1)
    inward, outward = (
        missing.index_put((place[chosen],), position[chosen])
        for chosen in (is_inward, ~is_inward)
    )
    one_way = 2 * pair.numel() > entry.numel()
    step = size * most
    rows = torch.arange(0, neighbors.num_nodes * step + 1, step, device=source.device)
    ptr = torch.searchsorted(pair, rows)
    return Pairs(ptr, pair // most % size, inward, outward, bits, one_way)


def _joined(
    node: Tensor,
    subgraph: Tensor,
    pairs: Pairs,
    neighbors: Neighbors,
    table: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Compute `induced_edges` with a single test for each pair of adjacent nodes.

    `table` is an empty lookup table for node copies; None means binary search.
    """
    first = subgraph * neighbors.num_nodes
    start = pairs.ptr.index_select(0, node)
    count = pairs.ptr[1:].index_select(0, node) - start
    one, pair = ragged_ranges(start, count)
    wanted = pairs.other.index_select(0, pair).add_(first.index_select(0, one))
    other, is_inside = _find(first.add_(node), wanted, table)
    kept = is_inside.nonzero().flatten()
    one, other, pair = (rows.index_select(0, kept) for rows in (one, other, pair))
    target, source = torch.cat([one, other.long()]), torch.cat([other.long(), one])
    inward, outward = (p.index_select(0, pair) for p in (pairs.inward, pairs.outward))
    position = torch.cat([inward, outward])
    if pairs.one_way:
        kept, both = (position >= 0).nonzero().flatten(), (target, source, position)
        target, source, position = (rows.index_select(0, kept) for rows in both)
    # The incoming edges of a node are sorted as those of a copy: by source, then edge.
    key = target.bitwise_left_shift_(pairs.bits).bitwise_or_(position)
    size = node.numel()
    key, source = sort_pairs(key, size << pairs.bits, source, size)
    target = key >> pairs.bits
    position = key.bitwise_and_((1 << pairs.bits) - 1)
    entry = position.add_(neighbors.ptr.index_select(0, node).index_select(0, target))
    return torch.stack([source, target]), neighbors.edge.index_select(0, entry)


def _find(key: Tensor, wanted: Tensor, table: Tensor | None) -> tuple[Tensor, Tensor]:
    """Compute `find_sorted(key, wanted)`, by a lookup table if there is one."""
    if table is None:
        return find_sorted(key, wanted)
    table[key] = torch.arange(key.numel(), dtype=table.dtype)
    position = table.index_select(0, wanted)
    table[key] = -1
    return position, position >= 0


def _estimate(
    node: Tensor, first: Tensor, tests: Tensor, pairs: Pairs, neighbors: Neighbors
) -> float:
    """Estimate how many edges are found per tested pair, from a sample of subgraphs."""
    generator = torch.Generator("cpu").manual_seed(0)
    sample = torch.randint(tests.numel(), (SAMPLE,), generator=generator, device="cpu")
    sample = sample.to(node.device)
    some = (tests.index_select(0, sample).cumsum(0) <= CHUNK).sum().clamp(min=1)
    sample = distinct(sample[: int(some)])
    sizes = first.diff().index_select(0, sample)
    subgraph, copy = ragged_ranges(first.index_select(0, sample), sizes)
    _, edge = _joined(node.index_select(0, copy), subgraph, pairs, neighbors, None)
    return edge.numel() / max(int(tests.index_select(0, sample).sum()), 1)


def _of_few(
    node: Tensor,
    subgraph: Tensor,
    first: Tensor,
    tests: Tensor,
    neighbors: Neighbors,
    limit: CopyLimit,
) -> tuple[Tensor, Tensor]:
    """Find the edges inside subgraphs, by `tests[i]` tests for each node copy i.

    Each incoming edge of the node is tested: is its source in the subgraph? But if the
    subgraph has fewer nodes than the node has incoming edges, each node of the subgraph
    is tested: is it a source? `first` has the first node copy of each subgraph.
    """
    key = torch.add(node, subgraph, alpha=neighbors.num_nodes)
    start, in_degree = neighbors.rows(node)
    parts, found = [], node.numel()
    every = torch.arange(node.numel(), device=node.device)
    for run in torch.tensor_split(every, chunk_cuts(tests, CHUNK)):
        is_hub = in_degree[run] > tests[run]
        normal, hubs = run[~is_hub], run[is_hub]
        row, entry = ragged_ranges(start[normal], in_degree[normal])
        ends, edge = _inside(normal[row], entry, subgraph, key, neighbors)
        row, source = ragged_ranges(first[subgraph[hubs]], tests[hubs])
        target = hubs[row]
        wanted = node[target] * neighbors.num_nodes + node[source]
        low = torch.searchsorted(neighbors.key, wanted)
        parallel = torch.searchsorted(neighbors.key, wanted, right=True) - low
        pair, entry = ragged_ranges(low, parallel)
        ends = torch.cat([ends, torch.stack([source[pair], target[pair]])], dim=1)
        edge = torch.cat([edge, neighbors.edge[entry]])
        order = torch.argsort(ends[1], stable=True)
        parts.append((ends[:, order], edge[order]))
        found += edge.numel()
        limit.check(found)  # There may be parallel edges.
    return torch.cat([ends for ends, _ in parts], 1), torch.cat([e for _, e in parts])


def _inside(
    target: Tensor, entry: Tensor, subgraph: Tensor, key: Tensor, neighbors: Neighbors
) -> tuple[Tensor, Tensor]:
    """Select the candidate edges whose source is in the subgraph of their target.

    Candidate i is a copy of edge `entry[i]` of `neighbors`, and its target is node copy
    `target[i]`. `key` has the sorted numbers `subgraph * n + node` of all node copies.
    """
    source_node = neighbors.node.index_select(0, entry)
    of_target = subgraph.index_select(0, target)
    wanted = torch.add(source_node, of_target, alpha=neighbors.num_nodes)
    source, found = find_sorted(key, wanted)
    keep = found.nonzero().flatten()
    ends = torch.stack([source.index_select(0, keep), target.index_select(0, keep)])
    return ends, neighbors.edge.index_select(0, entry.index_select(0, keep))


class AcrossEdges(NamedTuple):
    """Edges between the copies of a node in different rooted subgraphs."""

    edge_index: Tensor
    """[2, edges], in 0..m-1: source and target node copy of each edge."""
    edge: Tensor
    """[edges], in 0..e-1: the edge of the graph that joins the two subgraphs' roots."""


def across_edges(subgraphs: RootedSubgraphs, edge_index: Tensor) -> AcrossEdges:
    r"""Find all edges across rooted subgraphs. The result is cached.

    For every edge $u' \to u$ of the graph, and every node $v$ that is both in the
    subgraph rooted at $u'$ and in the subgraph rooted at $u$, there is an edge from the
    copy of $v$ in the first subgraph to the copy of $v$ in the second: $(u', v) \to (u,
    v)$. The subgraphs of dropped roots have no such edges. The edges are sorted by
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

    A node copy is a pair $(u, v)$ of root and node. In whole graphs, the transposed
    pair $(v, u)$ is a node copy, too. Transposing both ends of an edge
    $(v, u') \to (v, u)$ inside the subgraph of $v$ gives the edge
    $(u', v) \to (u, v)$ across subgraphs. The result has the edges of `across_edges`
    in another order. Padding rows are allowed. The result is cached.

    Args:
        subgraphs: The result of `WholeGraphs`; checked only on a CPU.
        edge_index: Directed edges of the graph, [2, e].
    """
    compute = partial(_across_whole, subgraphs, edge_index)
    return subgraphs.once(AcrossEdges, compute, True)


class EdgePairs(NamedTuple):
    """For each edge a -> b of the graph, the node copies (a, b) and (b, a).

    (a, b) is the copy of node b in the subgraph rooted at a.
    """

    copy: Tensor
    """[2, e], in 0..m-1: copies (a, b) and (b, a); arbitrary if they do not exist."""
    exists: Tensor
    """[2, e], bool: whether each node copy of `copy` exists; all do in whole graphs."""


def edge_pairs(subgraphs: RootedSubgraphs, edge_index: Tensor) -> EdgePairs:
    """Find the `EdgePairs` of a graph, two node copies per edge; they are cached.

    Does not synchronise with a GPU. Padding rows are allowed.

    Args:
        subgraphs: The rooted subgraphs.
        edge_index: Directed edges of the graph, [2, e].

    >>> from gnnak.subgraphs import whole_graphs
    >>> pair = torch.tensor([[0, 1], [1, 0]])
    >>> edge_pairs(whole_graphs(pair, 2), pair).copy.tolist()  # (0, 1) is copy 1
    [[1, 2], [2, 1]]
    """

    def find() -> EdgePairs:
        ends = edge_index.flatten(), edge_index.flip(0).flatten()
        copy, exists = _find_copies(subgraphs, *ends)
        return EdgePairs(copy.view(2, -1), exists.view(2, -1))

    return subgraphs.once(EdgePairs, find)


def _find_copies(
    subgraphs: RootedSubgraphs, root: Tensor, node: Tensor
) -> tuple[Tensor, Tensor]:
    """Find the copy of `node` in the subgraph rooted at `root`; see `find_sorted`."""
    size = subgraphs.known_num_nodes
    number = torch.arange(subgraphs.num_subgraphs, device=subgraphs.device)
    rooted_at = number.new_full((size,), -1).index_copy(0, subgraphs.root, number)
    # Padding rows come last and have larger keys than all other rows.
    key = subgraphs.subgraph * size + subgraphs.node
    return find_sorted(key, rooted_at[root] * size + node)


def _across_whole(subgraphs: RootedSubgraphs, edge_index: Tensor) -> AcrossEdges:
    size, device = subgraphs.known_num_nodes, subgraphs.device
    root = subgraphs.root.index_select(0, subgraphs.subgraph)
    swapped, found = _find_copies(subgraphs, subgraphs.node, root)
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
    start, count = neighbors.rows(subgraphs.root.index_select(0, subgraphs.subgraph))
    target, entry = ragged_ranges(start, count)
    other = neighbors.node.index_select(0, entry)
    node = subgraphs.node.index_select(0, target)
    source, found = _find_copies(subgraphs, other, node)
    kept = found.nonzero().flatten()
    ends = torch.stack([source, target]).index_select(1, kept)
    edge = neighbors.edge.index_select(0, entry.index_select(0, kept))
    return AcrossEdges(ends, edge)
