"""The greedy loop that farthest sampling and minimum set cover have in common."""

from collections.abc import Callable

import torch
from torch import Tensor

from gnnak.sampling.plan import Plan, best_of_each
from gnnak.subgraphs.rooted import RootedSubgraphs

Score = Callable[[Tensor, Tensor], Tensor]
"""Called as `score(covered, last)`, returns an integer score per subgraph, [s]; the
highest score is sampled next. `covered`, [n], is the number of sampled subgraphs that
contain each node. `last`, [num_components], is the root that the last step sampled in
each component, or -1 if it sampled none there."""


def sample_greedily(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    score: Score,
    rank: Tensor,
) -> Tensor:
    """Sample the subgraph with the highest score, until all nodes are covered.

    Every step samples one subgraph in each connected component that has an uncovered
    node, so there are at most as many steps as the largest component has roots. The
    first step samples at random.

    Args:
        subgraphs: The rooted subgraphs.
        plan: What SubgraphDrop precomputes for this batch.
        min_coverage: R. A node is covered if it is in at least R sampled subgraphs, or
            in all subgraphs that contain it if these are fewer than R.
        score: Returns the scores; called after every step.
        rank: A random permutation, [s]; the highest rank wins the first step and breaks
            ties between equal scores.

    Returns:
        Boolean mask of the sampled subgraphs, [s].
    """
    wanted = plan.held.clamp(max=min_coverage)
    covered = torch.zeros_like(plan.held)
    component = plan.component.index_select(0, subgraphs.root)
    sampled = torch.zeros_like(component, dtype=torch.bool)
    # The tie break is below 1, so it never outweighs a difference of integer scores.
    tie_break = rank.double() / max(sampled.numel(), 1)
    points = tie_break
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


def _components_with(nodes: Tensor, plan: Plan) -> Tensor:
    """Return a mask of the connected components that contain any of these nodes."""
    count = plan.held.new_zeros(plan.num_components)
    return count.index_add(0, plan.component, nodes.long()) > 0
