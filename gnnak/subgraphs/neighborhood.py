"""Sample the neighbourhoods of seed nodes: the nodes and edges of a mini-batch."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.graphs.adjacency import Neighbors
from gnnak.graphs.ragged import ragged_ranges, range_ends
from gnnak.subgraphs.copy_limit import BYTES_PER_COPY, CopyLimit, check_free
from gnnak.subgraphs.induce import find_sorted, induced_edges

LOWER = "batch_size or num_neighbors"
"""The options that error messages advise to lower."""


class Hop(NamedTuple):
    """One step of `sample_neighborhood`: the edges to follow, and how many per node."""

    neighbors: Neighbors
    """The neighbours of every node, along incoming or along outgoing edges."""
    most: int | None
    """At most this many neighbours of a node are sampled; if None, all."""


class Neighborhood(NamedTuple):
    """The nodes and edges around some seeds: one graph, or one graph per seed."""

    node: Tensor
    """[n]: the nodes, as numbers in the large graph: first the seeds, then the nodes
    that each hop finds. With one graph per seed, nodes can repeat."""
    scope: Tensor
    """[n]: the graph of each node. With one graph per seed, seed i is in graph i."""
    edge_index: Tensor
    """[2, e], in 0..n-1: the edges, between positions in `node`."""
    edge: Tensor
    """[e]: the column of each edge in the large graph's `edge_index`."""
    found: list[int]
    """Number of nodes after each hop. The first entry is the number of seeds."""


def sample_neighborhood(
    seeds: Tensor,
    neighbors: Neighbors,
    hops: Sequence[Hop],
    *,
    per_seed: bool = False,
    induced: bool = False,
    seed: int = 0,
) -> Neighborhood:
    """Sample the neighbourhood of seed nodes, [s]; see `RootLoader`.

    Time does not depend on the size of the graph. The sample at a node depends on the
    node, on `Hop.most`, on `seed` and, if `per_seed`, on the seed node. A hop starts
    from the nodes that the last hop found. But a hop that reverses the edge direction
    starts from all nodes found so far. If `induced`, the result has all edges between
    its nodes, else only the edges that the search followed.
    """
    size = max(neighbors.num_nodes, 1)
    number = torch.arange(seeds.numel(), device=seeds.device)
    scope = number if per_seed else torch.zeros_like(number)
    shift = int(mixed(torch.tensor(seed, device="cpu")))
    salt = mixed((seeds if per_seed else seeds.new_zeros(1)) + shift)
    # A node v in scope i is the integer `i * size + v`.
    parts, followed = [torch.add(seeds, scope, alpha=size)], []
    frontier, seen = parts[0], parts[0].sort().values
    for step, hop in enumerate(hops):
        if step and hop.neighbors is not hops[step - 1].neighbors:
            frontier = seen
        node = frontier % size
        row, entry = sample_neighbors(hop, node, salt, frontier // size)
        target = frontier.index_select(0, row)
        source = target - node.index_select(0, row)
        source += hop.neighbors.node.index_select(0, entry)
        if not induced:
            followed.append((source, target, hop.neighbors.edge.index_select(0, entry)))
        reached = torch.unique(source)
        frontier = reached[~find_sorted(seen, reached)[1]]
        parts.append(frontier)
        seen = torch.cat([seen, frontier]).sort().values
    keys = torch.cat(parts)
    ordered, row = keys.sort()
    if induced:
        node, scope = ordered % size, ordered // size
        limit = CopyLimit(None, seeds.device, LOWER)
        ends, edge = induced_edges(node, scope, max(seeds.numel(), 1), neighbors, limit)
    else:
        none = (keys[:0],) * 3
        source, target, edge = map(torch.cat, zip(none, *followed, strict=True))
        ends = torch.searchsorted(ordered, torch.stack([source, target]))
    found = torch.tensor([part.numel() for part in parts], device="cpu").cumsum(0)
    return Neighborhood(keys % size, keys // size, row[ends], edge, found.tolist())


def sample_neighbors(
    hop: Hop, nodes: Tensor, salt: Tensor, salt_of: Tensor
) -> tuple[Tensor, Tensor]:
    """Sample neighbours without replacement; node i has the seed `salt[salt_of[i]]`.

    Returns two indices for each sampled neighbour: the index in `nodes` of the node
    whose neighbour it is, and the index in `hop.neighbors.node` of the neighbour.
    """
    start, degree = hop.neighbors.rows(nodes)
    count = degree if hop.most is None else degree.clamp(max=hop.most)
    total = range_ends(count)[1]
    what = f"the {total:,} sampled edges of a mini-batch"
    check_free(total * BYTES_PER_COPY, nodes.device, what, f"lower {LOWER}")
    row, entry = ragged_ranges(start, count, total)
    if hop.most is None:
        return row, entry
    is_hub = degree > hop.most
    hubs = is_hub.nonzero().flatten()
    random = mixed(salt.index_select(0, salt_of[hubs]) + nodes[hubs])
    chosen = distinct_numbers(degree[hubs], hop.most, random)
    entry[is_hub.index_select(0, row)] = (start[hubs, None] + chosen).flatten()
    return row, entry


def distinct_numbers(below: Tensor, count: int, random: Tensor) -> Tensor:
    """Choose `count` distinct numbers in 0..below[i]-1 for each row i, [rows, count].

    All subsets are equally likely (Floyd's algorithm). Row i has the seed `random[i]`.
    """
    step = torch.arange(count, device=below.device)
    last = (below - count)[:, None] + step
    chosen = mixed(random[:, None] + GOLDEN * (step + 1)) % (last + 1)
    for column in range(1, count):
        now = chosen[:, column]
        taken = (chosen[:, :column] == now[:, None]).any(dim=1)
        chosen[:, column] = torch.where(taken, last[:, column], now)
    return chosen


GOLDEN = -7046029254386353131
"""2^64 divided by the golden ratio, as an int64: the increment of SplitMix64."""
MIXING = ((30, -4658895280553007687), (27, -7723592293110705685), (31, 1))
"""Shifts and factors of SplitMix64."""


def mixed(numbers: Tensor) -> Tensor:
    """Map int64 numbers to pseudo-random ones, as SplitMix64 does."""
    for shift, factor in MIXING:
        high = (numbers >> shift) & ((1 << (64 - shift)) - 1)
        numbers = (numbers ^ high) * factor
    return numbers
