"""Random sampling: roots in random order until every node is covered."""

import torch
from torch import Tensor

from gnnak.sampling.coverage import cover_by_order
from gnnak.sampling.plan import Plan
from gnnak.subgraphs.rooted import RootedSubgraphs


def random_roots(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Choose subgraphs in random order until every node is covered.

    No loop at all: with the order drawn, where each component stops is known.

    Returns:
        Which subgraphs are kept, [s] bool.
    """
    rank = random_order(subgraphs, generator)
    return cover_by_order(subgraphs, plan.component, rank, min_coverage)


def random_order(
    subgraphs: RootedSubgraphs, generator: torch.Generator | None
) -> Tensor:
    """A random permutation of the subgraphs, [s], drawn where the generator is."""
    device = subgraphs.device if generator is None else generator.device
    order = torch.randperm(subgraphs.num_subgraphs, generator=generator, device=device)
    return order.to(subgraphs.device)
