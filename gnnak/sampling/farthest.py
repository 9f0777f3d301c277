"""Farthest sampling: always the root farthest from those already kept."""

import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.sampling.greedy import choose_greedily
from gnnak.sampling.plan import Plan
from gnnak.sampling.random_roots import random_order
from gnnak.subgraphs.rooted import RootedSubgraphs


@operation
def farthest_roots(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Choose a random first root, then ever the one farthest from the kept ones.

    Distance is the shortest path, edges counting in both directions; what no path
    joins is another component and chosen from for itself.

    Returns:
        Which subgraphs are kept, [s] bool.
    """
    rank = random_order(subgraphs, generator)
    distances = plan.distances
    assert distances is not None, "a plan for farthest sampling has distances"
    nodes = torch.arange(plan.num_nodes, device=subgraphs.device)
    nearest = torch.full_like(nodes, plan.num_nodes, dtype=torch.int32)

    def score(covered: Tensor, last: Tensor) -> Tensor:
        newest = last.index_select(0, plan.component)
        # A component of which none is kept, or all are, has no newest: any of its own.
        far = distances.between(torch.where(newest < 0, nodes, newest), nodes)
        far = far.masked_fill(newest < 0, plan.num_nodes)
        torch.minimum(nearest, far, out=nearest)
        return nearest.index_select(0, subgraphs.root)

    return choose_greedily(subgraphs, plan, min_coverage, score, rank)
