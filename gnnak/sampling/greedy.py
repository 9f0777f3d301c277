"""The loop that farthest sampling and greedy set cover share."""

from collections.abc import Callable

import torch
from torch import Tensor

from gnnak.sampling.plan import Plan, best_of_each
from gnnak.subgraphs.rooted import RootedSubgraphs

Score = Callable[[Tensor, Tensor], Tensor]
"""(coverage so far [n], roots chosen last [c] or -1) -> score of every subgraph [s]."""


def choose_greedily(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    score: Score,
    rank: Tensor,
) -> Tensor:
    """Keep the best-scored subgraph of every component until all is covered.

    All components take a step at once. The first subgraph is random, and ties are
    broken at random. Every step keeps one more subgraph of each unfinished component,
    so there are at most as many steps as the largest component has roots.

    Args:
        subgraphs: The rooted subgraphs.
        plan: What does not change from draw to draw.
        min_coverage: How often every node is to be covered, if it can be.
        score: Whole-number scores; called before every step but the first.
        rank: How lucky each subgraph is, [s], a permutation.

    Returns:
        Which subgraphs are kept, [s] bool.
    """
    wanted = plan.held.clamp(max=min_coverage)
    covered = torch.zeros_like(plan.held)
    home = plan.component.index_select(0, subgraphs.root)
    kept = torch.zeros_like(home, dtype=torch.bool)
    luck = rank.double() / max(kept.numel(), 1)
    points = luck
    for _ in range(kept.numel()):
        unfinished = _components_with(covered < wanted, plan)
        able = unfinished.index_select(0, home) & ~kept
        points = points.masked_fill(~able, -torch.inf)
        chosen = best_of_each(points, home, plan.num_components)
        picked = chosen[chosen >= 0]
        if not picked.numel():
            break
        now = torch.zeros_like(kept)
        now[picked] = True
        kept |= now
        covered.index_add_(0, subgraphs.node, now[subgraphs.subgraph].long())
        last = torch.where(chosen >= 0, subgraphs.root[chosen.clamp(min=0)], -1)
        points = score(covered, last).double() + luck
    return kept


def _components_with(nodes: Tensor, plan: Plan) -> Tensor:
    """Which components hold any of the marked nodes, [c] bool."""
    count = plan.held.new_zeros(plan.num_components)
    return count.index_add(0, plan.component, nodes.long()) > 0
