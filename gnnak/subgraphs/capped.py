"""Capped egonets, which have only a sample of the nodes that each hop finds."""

from functools import partial
from random import Random

import torch
from torch import Tensor

from gnnak.graphs.adjacency import Neighbors, check_edge_index, check_roots, incoming
from gnnak.graphs.ragged import ragged_ranges, sorted_values
from gnnak.subgraphs.copy_limit import CopyLimit
from gnnak.subgraphs.induce import induced_subgraphs
from gnnak.subgraphs.reach import estimated_copies
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count

CHUNK = 1 << 18
"""Largest number of neighbours that are handled at a time, to bound the memory."""
BITS = 32
"""Number of bits that `_sample` uses for the difference of two node numbers."""
PRIMES = (2147483647, 2147483629, 2147483587, 2147483579, 2147483563, 2147483549)
"""Step sizes through a list of neighbours. These primes are larger than the length of
the list, so no neighbour is visited twice."""


def capped_egonets(
    edge_index: Tensor,
    num_nodes: int,
    num_hops: int,
    max_neighbors: int,
    roots: Tensor | None = None,
    seed: int = 0,
    copy_limit: int | None = None,
) -> RootedSubgraphs:
    r"""Extract egonets with at most M = `max_neighbors` sampled nodes per hop.

    The egonet of root $v$ starts with $\mathcal{S}_0 = \{v\}$. In each of k hops, every
    node of $\mathcal{S}_{h-1}$ proposes its neighbours (nodes with an edge to it), or M
    random ones if it has more. $\mathcal{S}_h$ has all proposed nodes that are new, or
    M random ones if there are more. So an egonet has at most $1 + k M$ nodes. It has
    all edges of the graph between its nodes. `hop` is the length of the shortest path
    to the root inside the egonet: it is at most $h$ for a node of $\mathcal{S}_h$. It
    is smaller if the node has an edge to a node that was sampled before hop $h - 1$.

    The sample depends only on `seed`, on the order of nodes and on the graph that the
    root is in. So it is the same in each call, on each device, for any other `roots`,
    and in a batch with other graphs. If no more than M nodes are proposed in any hop,
    the egonets are those of `egonets`.

    Args:
        edge_index: Directed edges, [2, e]. Parallel edges count as several neighbours.
        num_nodes: Number of nodes, n.
        num_hops: Number of hops, k.
        max_neighbors: M, the largest number of nodes that a node proposes, and that are
            sampled in a hop.
        roots: The roots of the subgraphs, as in `egonets`. If None, all nodes.
        seed: Seed of the sample.
        copy_limit: Upper limit on the number of copies, as in `egonets`.

    >>> star = torch.tensor([[1, 2, 3, 4, 5], [0, 0, 0, 0, 0]])
    >>> capped_egonets(star, 6, num_hops=1, max_neighbors=2).sizes
    tensor([3, 1, 1, 1, 1, 1])
    """
    check_count("num_hops", num_hops)
    check_count("max_neighbors", max_neighbors, least=1)
    check_count("seed", seed)
    check_edge_index(edge_index, num_nodes)
    root = check_roots(roots, num_nodes, edge_index.device)
    options = num_hops, max_neighbors, seed, copy_limit
    found = capped_egonets_of(root, incoming(edge_index, num_nodes), *options)
    return found.assume(in_order=True) if roots is None else found


def capped_egonets_of(
    root: Tensor,
    neighbors: Neighbors,
    num_hops: int,
    max_neighbors: int,
    seed: int,
    copy_limit: int | None,
) -> RootedSubgraphs:
    """Extract the capped egonets of the roots, [s], like `capped_egonets`."""
    lower = "max_neighbors, num_hops or the number of roots"
    limit = CopyLimit(copy_limit, root.device, lower)
    degree = neighbors.ptr.diff()
    widest = int(degree.max()) if degree.numel() else 0
    sampled = min(max_neighbors, neighbors.num_nodes)
    proposed = min(max_neighbors, widest) * (sampled if num_hops > 1 else 1)

    near = partial(_sample, neighbors=neighbors, num_hops=num_hops)
    sample = partial(near, most=max_neighbors, seed=seed)
    if limit.is_below(root.numel() * (1 + num_hops * sampled)):
        limit.check(estimated_copies(root, sample), "about", "node copies")
    found, first, total = [], 0, 0
    for part in torch.split(root, max(CHUNK // max(proposed, 1), 1)):
        found.append(sample(part) + first * neighbors.num_nodes)
        first, total = first + part.numel(), total + found[-1].numel()
        limit.check(total, what="node copies")
    subgraphs = induced_subgraphs(root, torch.cat(found), neighbors, num_hops, limit)
    return subgraphs.assume(hop_range=(0, num_hops))


def _sample(
    root: Tensor, neighbors: Neighbors, num_hops: int, most: int, seed: int
) -> Tensor:
    """Sample egonets of a few roots; return `i * n + v` for root i and node v, sorted.

    During the search, node v in the egonet of root i is the number `i * 2**BITS` plus
    `order(v - root[i])`, where `order` is a random permutation. So the smallest numbers
    of a root are a random sample.
    """
    order, size = Shuffle(str(seed), BITS), neighbors.num_nodes
    number = torch.arange(root.numel(), device=root.device)
    found = frontier = (number << BITS) + order(torch.zeros_like(root))
    for hop in range(num_hops):
        first, of_root, node = _decoded(frontier, order, root)
        row, node = _proposals(node, of_root, neighbors, most, Shuffle(f"{seed} {hop}"))
        pair = order(node.sub_(of_root.index_select(0, row)))
        pair += first.index_select(0, row)
        # The last bit tells proposed pairs from those found before, which come first.
        both = sorted_values(torch.cat([found << 1, pair.mul_(2).add_(1)]))
        pair, is_new = both >> 1, both.bitwise_and_(1).bool()
        is_new[1:] &= pair[1:] != pair[:-1]
        pair = pair.masked_select(is_new)
        start = torch.searchsorted(pair, number << BITS)
        place = torch.arange(pair.numel(), device=root.device)
        place -= start.index_select(0, pair >> BITS)
        frontier = pair.masked_select(place < most)
        if not frontier.numel():
            break
        found = torch.cat([found, frontier])
    first, _, node = _decoded(found, order, root)
    return sorted_values((first >> BITS) * size + node)


def _decoded(
    pair: Tensor, order: "Shuffle", root: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """For each number (see `_sample`), return `i * 2**BITS`, `root[i]` and node v."""
    mask = (1 << BITS) - 1
    of_root = root.index_select(0, pair >> BITS)
    node = order.inverse(pair & mask).add_(of_root).bitwise_and_(mask)
    return pair & ~mask, of_root, node


def _proposals(
    node: Tensor, root: Tensor, neighbors: Neighbors, most: int, mix: "Shuffle"
) -> tuple[Tensor, Tensor]:
    """Sample at most `most` neighbours of each node; return (row of `node`, neighbour).

    Of d neighbours, those at positions (a + b j) modulo d are sampled, for j = 0, 1,
    ..., with a random a and a random prime b for each node and root.
    """
    start, degree = neighbors.rows(node)
    row, step = ragged_ranges(torch.zeros_like(start), degree.clamp(max=most))
    if not row.numel():
        return row, row
    # Differences of numbers do not change if the graph is part of a batch.
    first = neighbors.node[start.clamp(max=neighbors.node.numel() - 1)]
    draw = mix(mix(node - root).add_(first - root))
    prime = torch.tensor(PRIMES, device=root.device)[draw % len(PRIMES)]
    degree.clamp_(min=1)
    step *= (prime % degree).index_select(0, row)
    step += ((draw >> 3) % degree).index_select(0, row)
    step %= degree.index_select(0, row)
    step += start.index_select(0, row)
    return row, neighbors.node.index_select(0, step)


class Shuffle:
    """A random permutation of the integers 0..2**bits-1, which depends on a seed."""

    def __init__(self, seed: str, bits: int = 62) -> None:
        draw = Random(seed).getrandbits
        self.bits, self.mask = bits, (1 << bits) - 1
        self.steps = [(draw(bits) | 1, draw(bits)) for _ in range(3)]

    def __call__(self, value: Tensor) -> Tensor:
        """Apply the permutation to `value` modulo `2**bits`."""
        for factor, shift in self.steps:
            value = (value * factor).add_(shift).bitwise_and_(self.mask)
            value ^= value >> (self.bits + 1) // 2
        return value

    def inverse(self, value: Tensor) -> Tensor:
        for factor, shift in reversed(self.steps):
            value = (value ^ (value >> (self.bits + 1) // 2)).sub_(shift)
            value = value.mul_(pow(factor, -1, 1 << self.bits)).bitwise_and_(self.mask)
        return value
