"""Greedy minimum set cover: always sample the subgraph that improves coverage most."""

import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.sampling.greedy import sample_greedily
from gnnak.sampling.plan import Plan
from gnnak.sampling.random_roots import random_order
from gnnak.subgraphs.rooted import RootedSubgraphs


@operation
def set_cover_roots(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Sample subgraphs greedily, by the number of least-covered nodes they contain.

    A node is covered if it is in at least `min_coverage` sampled subgraphs, or if all
    subgraphs that contain the node are sampled. Of the uncovered nodes of a connected
    component, the least-covered nodes are those in the fewest sampled subgraphs. Every
    component is sampled separately, until all of its nodes are covered; its first
    subgraph is random.

    Args:
        subgraphs: The s rooted subgraphs.
        plan: The sampling plan: what SubgraphDrop precomputes for this batch.
        min_coverage: R, the number of sampled subgraphs that must contain each node.
        generator: Source of randomness; PyTorch's default generator if None.

    Returns:
        Boolean mask of the sampled subgraphs, [s].
    """
    rank = random_order(subgraphs, generator)
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

    return sample_greedily(subgraphs, plan, min_coverage, score, rank)
