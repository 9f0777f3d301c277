"""Greedy minimum set cover: sample the subgraph with most least-covered nodes."""

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
    """Sample a random subgraph, then always that with most of the least-covered nodes.

    A node needs coverage if it is in fewer than `min_coverage` sampled subgraphs, and
    in at least one subgraph that is not sampled yet. The least-covered nodes of a
    connected component are those that are in the fewest sampled subgraphs, among its
    nodes that need coverage. Every component is sampled separately.

    Args:
        subgraphs: The rooted subgraphs.
        plan: What SubgraphDrop precomputes for this batch.
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
