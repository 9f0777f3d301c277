"""The greedy loop of farthest sampling and minimum set cover."""

from collections.abc import Callable

import torch
from torch import Tensor

from gnnak.sampling.plan import Plan, best_of_each
from gnnak.subgraphs.rooted import RootedSubgraphs

Score = Callable[[Tensor, Tensor], Tensor]
"""Maps (number of sampled subgraphs that contain each node, [n]; root sampled last in
each component, -1 = none, [num_components]) to an integer score per subgraph, [s]."""


def sample_greedily(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    score: Score,
    rank: Tensor,
) -> Tensor:
    """Sample the best-scored subgraph of each component until its nodes are covered.

    Every step samples one subgraph in each component that is not covered yet, so there
    are at most as many steps as the largest component has roots. The first step samples
    at random.

    Args:
        subgraphs: The rooted subgraphs.
        plan: The plan of this batch.
        min_coverage: R, the number of sampled subgraphs that must contain each node, or
            all that contain it if there are fewer.
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
    # Below 1, so that it only breaks ties between integer scores.
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
    """Return a mask of the components with a node of the mask `nodes`, [n] bool."""
    count = plan.held.new_zeros(plan.num_components)
    return count.index_add(0, plan.component, nodes.long()) > 0
