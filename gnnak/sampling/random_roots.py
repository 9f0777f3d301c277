"""Random sampling: sample subgraphs in random order until they cover every node."""

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
    """Sample subgraphs in random order until every node is covered.

    A node is covered if it is in at least `min_coverage` sampled subgraphs, or if all
    subgraphs that contain the node are sampled. Every connected component is sampled
    separately.

    Args:
        subgraphs: The s rooted subgraphs.
        plan: The sampling plan: what SubgraphDrop precomputes for this batch.
        min_coverage: R, the number of sampled subgraphs that must contain each node.
        generator: Source of randomness; PyTorch's default generator if None.

    Returns:
        Boolean mask of the sampled subgraphs, [s].
    """
    rank = random_order(subgraphs, generator)
    return cover_by_order(subgraphs, plan.component, rank, min_coverage)


def random_order(
    subgraphs: RootedSubgraphs, generator: torch.Generator | None
) -> Tensor:
    """Return a random permutation of 0..s-1, where s is the number of subgraphs.

    The result is on the device of `subgraphs`, even if `generator` is on another one.
    """
    device = subgraphs.device if generator is None else generator.device
    order = torch.randperm(subgraphs.num_subgraphs, generator=generator, device=device)
    return order.to(subgraphs.device)
