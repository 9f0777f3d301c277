"""Greedy sampling: the loop that farthest sampling and minimum set cover share."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from gnnak.sampling.plan import Plan, best_of_each
from gnnak.subgraphs.rooted import RootedSubgraphs

Ties = Literal["random", "lowest"]
"""Which of several subgraphs with equal scores is sampled: a random one, or the one
whose root has the lowest node number."""
Score = Callable[[Tensor, Tensor], Tensor]
"""A function that is called as `score(covered, last)` and returns an integer score for
each subgraph, [s]; the subgraph with the highest score is sampled next. `covered`, [n],
is the number of sampled subgraphs that contain each node. `last`, [num_components], is
the root that was sampled last in each connected component, or -1 if the last step
sampled no root in the component."""


def sample_greedily(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    score: Score,
    rank: Tensor,
    ties: Ties = "random",
) -> Tensor:
    """Repeatedly sample the subgraph with the highest score, until nodes are covered.

    A node is covered if it is in at least `min_coverage` sampled subgraphs, or if all
    subgraphs that contain the node are sampled. Every step samples one subgraph in each
    connected component that has an uncovered node; the first step samples at random.

    Args:
        subgraphs: The s rooted subgraphs.
        plan: The sampling plan: what SubgraphDrop precomputes for this batch.
        min_coverage: R, the number of sampled subgraphs that must contain each node.
        score: Called after every step; returns the scores of all subgraphs for the next
            step.
        rank: A random permutation of 0..s-1, [s]. The first step samples the subgraphs
            with the highest rank.
        ties: Which of several subgraphs with equal scores is sampled.

    Returns:
        Boolean mask of the sampled subgraphs, [s].
    """
    wanted = plan.held.clamp(max=min_coverage)
    covered = torch.zeros_like(plan.held)
    component = plan.component.index_select(0, subgraphs.root)
    sampled = torch.zeros_like(component, dtype=torch.bool)
    # The tie break is below 1, so it never outweighs a difference of integer scores.
    tie_break = tie_ranks(subgraphs, rank, ties).double() / max(sampled.numel(), 1)
    points = rank.double()
    for _ in range(sampled.numel()):
        unfinished = _components_with(covered < wanted, plan)
        available = unfinished.index_select(0, component) & ~sampled
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
    """Return a permutation, [s]: of equal scores, the one with the highest entry wins.

    `rank` is a random permutation of 0..s-1, [s].
    """
    if ties == "random":
        return rank
    return subgraphs.num_subgraphs - 1 - subgraphs.root


def _components_with(nodes: Tensor, plan: Plan) -> Tensor:
    """Return a boolean mask of the connected components that contain a marked node.

    `nodes` is a boolean mask of the marked nodes, [n].
    """
    count = plan.held.new_zeros(plan.num_components)
    return count.index_add(0, plan.component, nodes.long()) > 0
