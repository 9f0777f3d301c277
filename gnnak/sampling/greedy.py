"""Greedy sampling of roots: farthest sampling and minimum set cover."""

from collections.abc import Callable
from heapq import heapify, heappop, heapreplace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.sampling.plan import Plan
from gnnak.sampling.random_roots import random_order
from gnnak.subgraphs.rooted import RootedSubgraphs

Ties = Literal["random", "lowest"]
"""Which of several subgraphs with equal scores is sampled: a random one, or the one
whose root has the lowest node number."""
Score = Callable[[Tensor, Tensor], Tensor]
"""`score(covered, last)` returns an integer for each subgraph, [s]; the subgraph with
the highest score is sampled next. `covered`, [n], counts the sampled subgraphs that
contain each node. `last`, [num_components], is the root that the last step has sampled
in each component, or -1."""


def sample_greedily(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    score: Score,
    rank: Tensor,
    ties: Ties = "random",
) -> Tensor:
    """Sample the subgraph with the highest score, until all nodes are covered.

    A node is covered if `min_coverage` or all of the subgraphs with it are sampled.
    Each step samples one subgraph per connected component. Scores in the first step are
    `rank`, [s]. Returns a boolean mask of the sampled subgraphs, [s].
    """
    wanted = plan.held.clamp(max=min_coverage)
    covered = torch.zeros_like(plan.held)
    component = plan.component.index_select(0, subgraphs.root)
    sampled = torch.zeros_like(component, dtype=torch.bool)
    # The tie break is below 1, so it never outweighs a difference of integer scores.
    tie_break = tie_ranks(subgraphs, rank, ties).double() / max(sampled.numel(), 1)
    points = rank.double()
    for _ in range(sampled.numel()):
        lacking = plan.held.new_zeros(plan.num_components)
        lacking.index_add_(0, plan.component, (covered < wanted).long())
        available = (lacking > 0).index_select(0, component) & ~sampled
        points = points.masked_fill(~available, -torch.inf)
        best = best_of_each(points, component, plan.num_components)
        picked = best[best >= 0]
        if not picked.numel():
            break
        new = torch.zeros_like(sampled)
        new[picked] = True
        sampled |= new
        covered.index_add_(0, subgraphs.node, new[subgraphs.subgraph].long())
        last = torch.where(best >= 0, subgraphs.root[best.clamp(min=0)], -1)
        points = score(covered, last).double() + tie_break
    return sampled


def tie_ranks(subgraphs: RootedSubgraphs, rank: Tensor, ties: Ties) -> Tensor:
    """Return ranks of subgraphs, [s], that break ties: the highest rank is sampled."""
    return rank if ties == "random" else subgraphs.num_subgraphs - 1 - subgraphs.root


def best_of_each(score: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """Return the index of the largest score in each group; -1 if all are -inf."""
    lowest = score.new_full((num_groups,), -torch.inf)
    best = lowest.scatter_reduce(0, group, score, "amax")
    is_best = (score == best.index_select(0, group)) & (score > -torch.inf)
    index = torch.arange(score.numel(), device=score.device)
    chosen = group.new_full((num_groups,), -1)
    return chosen.scatter_reduce(0, group, index.masked_fill(~is_best, -1), "amax")


Array = np.ndarray


class Coverage:
    """How many sampled subgraphs contain each node, and how many must contain it."""

    def __init__(
        self, subgraphs: RootedSubgraphs, plan: Plan, min_coverage: int
    ) -> None:
        self.wanted = plan.held.clamp(max=min_coverage).cpu().numpy()
        self.covered = np.zeros_like(self.wanted)
        self.node = subgraphs.node.cpu().numpy()
        self.ptr = subgraphs.by("subgraph").ptr.tolist()

    def nodes_of(self, subgraph: int) -> Array:
        return self.node[self.ptr[subgraph] : self.ptr[subgraph + 1]]

    def add(self, nodes: Array) -> int:
        """Count a sampled subgraph; return how many of its nodes now reach `wanted`."""
        self.covered[nodes] += 1
        return int(np.count_nonzero(self.covered[nodes] == self.wanted[nodes]))


def rows(ptr: Array, values: Array, at: Array) -> Array:
    """Concatenate the rows `at` of a matrix in CSR form."""
    first = ptr[at]
    count = ptr[at + 1] - first
    end = count.cumsum()
    total = int(end[-1]) if end.size else 0
    return values[np.repeat(first - end + count, count) + np.arange(total)]


def sample_one_by_one(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    coverage: Coverage,
    scores: "_Nearest | _LeastCovered",
    rank: Tensor,
    ties: Ties = "random",
) -> Tensor:
    """Sample like `sample_greedily`, but with a heap: faster for large components."""
    size = rank.numel()
    sampled = np.zeros(size, dtype=bool)
    first = rank.cpu().numpy()
    luck = tie_ranks(subgraphs, rank, ties).cpu().numpy()
    at_rank = np.argsort(luck)
    order = plan.by_component.order
    assert order is not None, "nodes are grouped by a sort"
    rooted_at = subgraphs.rooted_at.cpu().numpy()
    cuts = plan.by_component.ptr[1:-1].tolist()
    for nodes in np.split(order.cpu().numpy(), cuts):
        scores.begin(nodes)
        members, queue = rooted_at[nodes], list[int]()
        chosen, missing = int(members[first[members].argmax()]), members.size
        while True:
            sampled[chosen] = True
            covered = coverage.nodes_of(chosen)
            missing -= coverage.add(covered)
            if not missing:
                break
            if scores.update(chosen, covered) or not queue:
                left = members[~sampled[members]]
                queue = (-(scores.of(left) * size + luck[left])).tolist()
                heapify(queue)
            while True:
                chosen = int(at_rank[-queue[0] % size])
                key = -int(scores.of(chosen) * size + luck[chosen])
                if key == queue[0]:
                    heappop(queue)
                    break
                heapreplace(queue, key)
    return torch.from_numpy(sampled).to(rank.device)


@operation
def farthest_roots(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: torch.Generator | None = None,
    ties: Ties = "random",
) -> Tensor:
    """Sample a random root, then always the root farthest from all sampled roots."""
    rank = random_order(subgraphs, generator)
    if plan.distances is None:
        coverage = Coverage(subgraphs, plan, min_coverage)
        scores = _Nearest(subgraphs, plan)
        return sample_one_by_one(subgraphs, plan, coverage, scores, rank, ties)
    distances = plan.distances
    nodes = torch.arange(plan.num_nodes, device=subgraphs.device)
    nearest = torch.full_like(nodes, plan.num_nodes, dtype=torch.int32)

    def score(covered: Tensor, last: Tensor) -> Tensor:
        newest = last.index_select(0, plan.component)
        # newest is -1 if the last step sampled no root of this component. The distance
        # of each node to itself is then looked up and replaced by an upper bound, which
        # does not change the minimum.
        far = distances.between(torch.where(newest < 0, nodes, newest), nodes)
        far = far.masked_fill(newest < 0, plan.num_nodes)
        torch.minimum(nearest, far, out=nearest)
        return nearest.index_select(0, subgraphs.root)

    return sample_greedily(subgraphs, plan, min_coverage, score, rank, ties)


class _Nearest:
    """Scores each subgraph by the distance of its root to the nearest sampled root."""

    def __init__(self, subgraphs: RootedSubgraphs, plan: Plan) -> None:
        self.root = subgraphs.root.cpu().numpy()
        neighbors = plan.near.nodes(plan.component, plan.by_component)
        self.ptr, self.neighbor = (part.cpu().numpy() for part in neighbors)
        self.nearest = np.full(plan.num_nodes, plan.num_nodes, dtype=np.int64)
        self.place = np.empty_like(self.nearest)

    def begin(self, nodes: Array) -> None:
        """Begin to sample in the connected component that consists of `nodes`."""

    def of(self, subgraphs: Array | int) -> Array:
        return self.nearest[self.root[subgraphs]]

    def update(self, subgraph: int, nodes: Array) -> bool:
        """Update scores after sampling `subgraph`; return False: no score increases."""
        frontier = self.root[subgraph : subgraph + 1]
        distance = 0
        while frontier.size:
            self.nearest[frontier] = distance
            distance += 1
            found = rows(self.ptr, self.neighbor, frontier)
            found = found[self.nearest[found] > distance]
            # Of equal nodes, keep the one that was written last.
            number = np.arange(found.size)
            self.place[found] = number
            frontier = found[self.place[found] == number]
        return False


@operation
def set_cover_roots(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: torch.Generator | None = None,
    ties: Ties = "random",
) -> Tensor:
    """Sample subgraphs by the strategy "min-set-cover"; see `SubgraphDrop`."""
    rank = random_order(subgraphs, generator)
    if plan.is_large(subgraphs):
        coverage = Coverage(subgraphs, plan, min_coverage)
        scores = _LeastCovered(subgraphs, coverage)
        return sample_one_by_one(subgraphs, plan, coverage, scores, rank, ties)
    wanted = plan.held.clamp(max=min_coverage)
    never = torch.iinfo(wanted.dtype).max

    def score(covered: Tensor, last: Tensor) -> Tensor:
        lacking = covered.masked_fill(covered >= wanted, never)
        least = wanted.new_full((plan.num_components,), never)
        least = least.scatter_reduce(0, plan.component, lacking, "amin")
        least_covered = (lacking < never) & (lacking == least[plan.component])
        members = least_covered.long().index_select(0, subgraphs.node)
        total = wanted.new_zeros(subgraphs.num_subgraphs)
        return total.index_add(0, subgraphs.subgraph, members)

    return sample_greedily(subgraphs, plan, min_coverage, score, rank, ties)


class _LeastCovered:
    """Scores each subgraph by how many of its nodes are marked as least covered."""

    def __init__(self, subgraphs: RootedSubgraphs, coverage: Coverage) -> None:
        self.coverage = coverage
        by_node = subgraphs.by("node")
        assert by_node.order is not None, "copies are grouped by a sort"
        self.ptr = by_node.ptr.cpu().numpy()
        self.holder = subgraphs.subgraph[by_node.order].cpu().numpy()
        self.marked = np.zeros(coverage.covered.size, dtype=bool)
        self.num_marked = 0
        self.score = np.zeros(subgraphs.num_subgraphs, dtype=np.int64)

    def begin(self, nodes: Array) -> None:
        self.nodes, self.num_marked = nodes, 0

    def of(self, subgraphs: Array | int) -> Array:
        return self.score[subgraphs]

    def update(self, subgraph: int, nodes: Array) -> bool:
        """Unmark sampled `nodes`. If no mark is left, set new marks and return True."""
        covered = nodes[self.marked[nodes]]
        self.marked[covered] = False
        self.num_marked -= covered.size
        if self.num_marked:
            np.subtract.at(self.score, rows(self.ptr, self.holder, covered), 1)
            return False
        counts, wanted = self.coverage.covered, self.coverage.wanted
        lacking = self.nodes[counts[self.nodes] < wanted[self.nodes]]
        least = lacking[counts[lacking] == counts[lacking].min()]
        self.marked[least] = True
        self.num_marked = least.size
        self.score[rows(self.ptr, self.holder, self.nodes)] = 0
        np.add.at(self.score, rows(self.ptr, self.holder, least), 1)
        return True
