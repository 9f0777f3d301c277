"""Farthest sampling: always sample the root farthest from those sampled so far."""

import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.sampling.greedy import sample_greedily
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
    """Sample a random first root, then always the one farthest from the sampled ones.

    Farthest means that the shortest-path distance to the nearest sampled root is
    largest; edge directions are ignored. Every connected component is sampled
    separately, and stops when its nodes are covered.

    Args:
        subgraphs: The rooted subgraphs.
        plan: The plan of this batch, with distances.
        min_coverage: R, the number of sampled subgraphs that must contain each node.
        generator: Source of randomness; PyTorch's default generator if None.

    Returns:
        Boolean mask of the sampled subgraphs, [s].
    """
    rank = random_order(subgraphs, generator)
    distances = plan.distances
    assert distances is not None, "a plan for farthest sampling has distances"
    nodes = torch.arange(plan.num_nodes, device=subgraphs.device)
    nearest = torch.full_like(nodes, plan.num_nodes, dtype=torch.int32)

    def score(covered: Tensor, last: Tensor) -> Tensor:
        newest = last.index_select(0, plan.component)
        # -1: the last step sampled no root of this component. A node's distance to
        # itself is then looked up instead, and replaced by an upper bound that does not
        # change the minimum.
        far = distances.between(torch.where(newest < 0, nodes, newest), nodes)
        far = far.masked_fill(newest < 0, plan.num_nodes)
        torch.minimum(nearest, far, out=nearest)
        return nearest.index_select(0, subgraphs.root)

    return sample_greedily(subgraphs, plan, min_coverage, score, rank)
