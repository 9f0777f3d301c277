"""Extract, for each root, the nodes with the largest personalised PageRank."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.errors import OptionError
from gnnak.graphs.adjacency import Neighbors, check_edge_index, check_roots, incoming
from gnnak.graphs.ragged import (
    counts_of,
    pointers,
    ragged_ranges,
    sort_pairs,
    sorted_values,
)
from gnnak.subgraphs.copy_limit import CopyLimit, Limited
from gnnak.subgraphs.induce import induced_subgraphs
from gnnak.subgraphs.reach import estimated_copies
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count, convert_count

LEAST_ALPHA, LEAST_TOLERANCE = 0.01, 1e-8
"""Smallest `alpha` and `tolerance`, to limit the time and the rounding errors."""
ONE = 1 << 40
"""Probability 1 as a fixed-point number. Sums of integers are equal on all devices."""
BITS = 32
"""A pair of root number i and node v is encoded as `i * 2**BITS + v`."""
NODE = (1 << BITS) - 1
CHUNK = 1 << 19
"""Approximate number of pairs that are stored at a time, to bound the memory."""


def pagerank_neighbors(
    edge_index: Tensor,
    num_nodes: int,
    size: int,
    alpha: float = 0.15,
    tolerance: float = 1e-4,
    max_hops: int = 10,
    roots: Tensor | None = None,
    copy_limit: int | None = None,
) -> RootedSubgraphs:
    r"""Extract for every root the nodes with the largest personalised PageRank.

    A subgraph has `size` nodes: the root, and the nodes with the largest approximate
    PageRank (see `pagerank`). It has all edges of the graph between these nodes, as in
    ShaDow-GNN (Zeng et al., 2021). Of nodes with equal values, those with the lowest
    numbers are taken. A subgraph has fewer nodes if fewer have a path to the root, or
    if the PageRank of all other nodes is below the tolerance. `hop` is the length of
    the shortest path to the root inside the subgraph. The result is the same in each
    call, on each device and for any other `roots`.

    Args:
        edge_index: Directed edges, [2, e]. Parallel edges count as several neighbours.
        num_nodes: Number of nodes, n.
        size: Largest number of nodes of a subgraph, including the root.
        alpha: Probability, at least 0.01, that a walk from the root ends in a step.
            With a large value, nodes near the root are chosen.
        tolerance: Bounds the error, and must be at least 1e-8. On an undirected graph,
            the approximate PageRank of a node of degree d is too low by at most d times
            this value. A small value takes time and memory.
        max_hops: Largest distance to the root that is computed; nodes farther from the
            root, or without a path inside the subgraph, have `hop` -1.
        roots: The roots of the subgraphs, as in `egonets`. If None, all nodes.
        copy_limit: Upper limit on the number of copies, as in `egonets`.

    >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    >>> pagerank_neighbors(path, 4, size=2).node.tolist()
    [0, 1, 1, 2, 1, 2, 2, 3]
    """
    check_count("size", size, least=1)
    check_count("max_hops", max_hops)
    _check_floats(alpha, tolerance)
    check_edge_index(edge_index, num_nodes)
    root = check_roots(roots, num_nodes, edge_index.device)
    limit = CopyLimit(copy_limit, root.device, "size or the number of roots")
    neighbors = incoming(edge_index, num_nodes)
    if limit.is_below(root.numel() * min(size, num_nodes)):
        walks = partial(pagerank, neighbors=neighbors, alpha=alpha, tolerance=tolerance)
        copies = estimated_copies(root, lambda one: walks(one)[0][:size])
        limit.check(copies, "about", "node copies")
    keys, first, total, step = [root[:0]], 0, 0, 16
    while first < root.numel():
        some = root[first : first + step]
        pair, value = pagerank(some, neighbors, alpha, tolerance)
        chosen = _largest(pair, value, some, size)
        keys.append(((chosen >> BITS) + first) * num_nodes + (chosen & NODE))
        total += chosen.numel()
        limit.check(total, what="node copies")
        first += some.numel()
        step = max(min(4 * step, CHUNK * some.numel() // pair.numel()), 1)
    found = induced_subgraphs(root, torch.cat(keys), neighbors, max_hops, limit)
    return found.assume(in_order=True) if roots is None else found


def _check_floats(alpha: float, tolerance: float) -> None:
    floats = ("alpha", alpha, LEAST_ALPHA), ("tolerance", tolerance, LEAST_TOLERANCE)
    for option, value, least in floats:
        if not isinstance(value, int | float) or not least <= value < 1:
            told = f"{option} is {value!r}"
            raise OptionError(f"{told}; give a number with {least} <= {option} < 1.")


def _largest(pair: Tensor, value: Tensor, root: Tensor, size: int) -> Tensor:
    """For each root, return (root, root) and `size` - 1 others of largest `value`."""
    number = pair >> BITS
    is_root = pair & NODE == root.index_select(0, number)
    key = ((number + 1) << 41) - value.masked_fill(is_root, ONE + 1)
    key, order = sort_pairs(key, (root.numel() + 1) << 41)
    start = torch.searchsorted(number, torch.arange(root.numel(), device=root.device))
    place = torch.arange(order.numel(), device=root.device)
    place -= start.index_select(0, number)
    return sorted_values(pair.index_select(0, order[place < size]))


class _Walks(NamedTuple):
    """Probabilities of walks from some roots, one row per pair (root i, node v)."""

    pair: Tensor
    """[pairs], sorted: the number `i * 2**BITS + v` for root i and node v."""
    ended: Tensor
    """[pairs]: probability that a walk of root i has ended at node v."""
    here: Tensor
    """[pairs]: probability that a walk of root i is at node v now."""


def pagerank(
    root: Tensor, neighbors: Neighbors, alpha: float, tolerance: float
) -> tuple[Tensor, Tensor]:
    r"""Approximate the personalised PageRank of roots by forward push.

    A walk starts at root $v$. In every step, it ends with probability $\alpha$; else it
    goes to the source of a random incoming edge, or stays if there is none. $\pi_v(u)$
    is the probability that it ends at $u$. Let $d_u$ be the number of edges to $u$ (at
    least 1), and $\epsilon$ the tolerance. While walks are at some $u$ with a
    probability above $\epsilon d_u$, forward push (Andersen, Chung and Lang, 2006)
    moves them by one step. At last, a share $\alpha$ of the remaining walks ends. Apart
    from rounding to multiples of $2^{-40}$, the result $p$ satisfies

    $$0 \leq \pi_v(u) - p_v(u) \leq \epsilon \sum_w d_w \pi_w(u)$$

    The sum is $d_u$ on an undirected graph. Returns sorted pairs `i * 2**BITS + u` of
    root number i and node u, and $2^{40} p$, both [pairs].
    """
    active = number = torch.arange(root.numel(), device=root.device)
    one, parts, total = torch.full_like(root, ONE), [], root.numel()
    walks = _Walks((number << BITS) + root, torch.zeros_like(root), one)
    while active.numel():
        walks, active = _push(walks, active, neighbors, alpha, tolerance)
        moves = torch.zeros_like(number, dtype=torch.bool)
        moves[walks.pair.index_select(0, active) >> BITS] = True
        moving = int(moves.sum())
        if 2 * moving <= total:
            # Set the roots aside whose walks do not move any more.
            total, goes_on = moving, moves.index_select(0, walks.pair >> BITS)
            parts.append([rows.masked_select(~goes_on) for rows in walks])
            active = goes_on.cumsum(0).sub_(1).index_select(0, active)
            walks = _Walks(*(rows.masked_select(goes_on) for rows in walks))
    pair, ended, here = (torch.cat(rows) for rows in zip(*parts, walks, strict=True))
    value = ended + (here.double() * alpha).long()
    order = sort_pairs(pair, root.numel() << BITS)[1]
    order = order[value.index_select(0, order) > 0]
    return pair.index_select(0, order), value.index_select(0, order)


def _push(
    walks: _Walks, active: Tensor, neighbors: Neighbors, alpha: float, tolerance: float
) -> tuple[_Walks, Tensor]:
    """Move walks at rows `active` by one step; also return the rows to move next."""
    pair, ended, here = walks
    pushed, mass = pair.index_select(0, active), here.index_select(0, active)
    start, degree = neighbors.rows(pushed & NODE)
    # At a node without incoming edges, walks stay until they end.
    ending = torch.where(degree > 0, (mass.double() * alpha).long(), mass)
    share = (mass - ending).div_(degree.clamp(min=1), rounding_mode="floor")
    row, entry = ragged_ranges(start, degree)
    reached = (pushed >> BITS << BITS).index_select(0, row)
    reached += neighbors.node.index_select(0, entry)
    bound = (int(pair[-1]) | NODE) + 1
    reached, row = sort_pairs(reached, bound, row, active.numel())
    reached, count = torch.unique_consecutive(reached, return_counts=True)
    moved = pointers(share.index_select(0, row)).index_select(0, pointers(count)).diff()
    ended = ended.index_add(0, active, ending)
    here = here.index_fill(0, active, 0)
    place = torch.searchsorted(pair, reached)
    last = pair.numel() - 1
    is_new = pair.index_select(0, place.clamp(max=last)) != reached
    if bool(is_new.any()):
        # Insert the new pairs; all later rows move back.
        before = counts_of(place.masked_select(is_new), last + 2)[:-1].cumsum(0)
        old = torch.arange(last + 1, device=pair.device).add_(before)
        place += is_new.cumsum(0) - is_new.long()
        rows = pair.new_zeros(3, last + 1 + int(is_new.sum()))
        rows.index_copy_(1, old, torch.stack([pair, ended, here]))
        pair, ended, here = rows
        pair.index_copy_(0, place, reached)
    here.index_add_(0, place, moved)
    edges = neighbors.rows(reached & NODE)[1].clamp_(min=1)
    least = (edges.double() * (tolerance * ONE)).long()
    is_active = here.index_select(0, place) > least
    return _Walks(pair, ended, here), place.masked_select(is_active)


@dataclass(frozen=True)
class PageRankNeighbors(Limited):
    """Extract the nodes of largest personalised PageRank; see `pagerank_neighbors`.

    >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    >>> PageRankNeighbors(size=2)(path, 4)
    RootedSubgraphs(subgraphs=4, node_copies=8, edge_copies=8, device='cpu')
    """

    size: int
    """Largest number of nodes of a subgraph, including the root."""
    alpha: float = 0.15
    """Probability, at least 0.01, that a walk from the root ends in a step. With a
    large value, nodes near the root are chosen."""
    tolerance: float = 1e-4
    """Bounds the error; at least 1e-8. On an undirected graph, the approximate PageRank
    of a node of degree d is too low by at most d times this value."""
    max_hops: int = 10
    """Largest distance to the root that is computed; farther nodes have `hop` -1."""

    random = False
    """Always False: the subgraphs can be cached across epochs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        convert_count(self, "size", least=1)
        convert_count(self, "max_hops")
        _check_floats(self.alpha, self.tolerance)

    def __call__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None = None,
        roots: Tensor | None = None,
    ) -> RootedSubgraphs:
        """Extract a subgraph for each node, or each of `roots`; ignore `generator`."""
        options = self.size, self.alpha, self.tolerance, self.max_hops, roots
        return pagerank_neighbors(edge_index, num_nodes, *options, self.copy_limit)
