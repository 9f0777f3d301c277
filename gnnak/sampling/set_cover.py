"""Greedy minimum set cover: always the subgraph that covers most of what lacks most."""

import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.sampling.greedy import choose_greedily
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
    """Choose a random first subgraph, then ever the one with most least-covered nodes.

    Least covered are, of the nodes of a component that are not covered enough yet,
    those covered least often; nodes that can be covered no more do not count.

    Returns:
        Which subgraphs are kept, [s] bool.
    """
    rank = random_order(subgraphs, generator)
    wanted = plan.held.clamp(max=min_coverage)
    never = torch.iinfo(wanted.dtype).max

    def score(covered: Tensor, last: Tensor) -> Tensor:
        lacking = covered.masked_fill(covered >= wanted, never)
        least = wanted.new_full((plan.num_components,), never)
        least = least.scatter_reduce(0, plan.component, lacking, "amin")
        counts = (lacking < never) & (lacking == least[plan.component])
        members = counts.long().index_select(0, subgraphs.node)
        total = wanted.new_zeros(subgraphs.num_subgraphs)
        return total.index_add(0, subgraphs.subgraph, members)

    return choose_greedily(subgraphs, plan, min_coverage, score, rank)
