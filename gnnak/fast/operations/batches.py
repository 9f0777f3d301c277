"""Fast sampling of rooted subgraphs (SubgraphDrop) and fast padding of batches."""

import torch
from torch import Tensor

from gnnak.fast.sampling import can_sample
from gnnak.loading.padding import Span
from gnnak.optional import has_triton, interprets_triton
from gnnak.sampling.estimate import Filling
from gnnak.sampling.greedy import Ties
from gnnak.sampling.plan import Plan
from gnnak.sampling.random_roots import random_order
from gnnak.subgraphs.rooted import RootedSubgraphs


class BatchOperations:
    """Fast sampling of rooted subgraphs and fast padding of batches."""

    # Sampling of rooted subgraphs.

    def farthest_roots(
        self,
        subgraphs: RootedSubgraphs,
        plan: Plan,
        min_coverage: int,
        generator: torch.Generator | None = None,
        ties: Ties = "random",
    ) -> Tensor:
        return _greedy(subgraphs, plan, min_coverage, generator, True, ties)

    def set_cover_roots(
        self,
        subgraphs: RootedSubgraphs,
        plan: Plan,
        min_coverage: int,
        generator: torch.Generator | None = None,
        ties: Ties = "random",
    ) -> Tensor:
        return _greedy(subgraphs, plan, min_coverage, generator, False, ties)

    def filling_of(
        self,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        sampled: Tensor,
        number: Tensor,
        root: Tensor,
        plan: Plan | None,
    ) -> Filling:
        if plan is None or not can_sample(plan):
            return NotImplemented
        from gnnak.fast.sampling.fill import fast_filling

        return fast_filling(subgraphs, plan, sampled, number)

    # Padding of batches.

    def pad_rows(
        self, value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
    ) -> Tensor:
        if not _can_pad(value):
            return NotImplemented
        from gnnak.fast import padding as kernels

        return kernels.pad_rows(value, first, count, size, padding)

    def pad_numbers(
        self, values: list[Tensor], rows: Span, named: Span, to_last: bool
    ) -> Tensor:
        if not _can_pad(values[0]):
            return NotImplemented
        from gnnak.fast import padding as kernels

        return kernels.pad_numbers(values, rows, named, to_last)

    def pad_pointers(
        self,
        value: Tensor,
        first: Tensor,
        end: Tensor,
        size: int,
        rows_first: Tensor,
    ) -> Tensor:
        if not _can_pad(value):
            return NotImplemented
        from gnnak.fast import padding as kernels

        return kernels.pad_pointers(value, first, end, size, rows_first)


def _greedy(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: torch.Generator | None,
    farthest: bool,
    ties: Ties,
) -> Tensor:
    """Sample the rooted subgraphs that SubgraphDrop uses; all others are dropped.

    Args:
        subgraphs: All s rooted subgraphs of a batch.
        plan: What SubgraphDrop precomputes for the batch.
        min_coverage: Each node must be in at least this many sampled subgraphs.
        generator: Source of randomness; PyTorch's default generator if None.
        farthest: Whether to use farthest-point sampling; if False, greedy set cover.
        ties: Which of several subgraphs with equal scores is sampled.

    Returns:
        A boolean mask of the sampled subgraphs, [s]; `NotImplemented` if the Triton
        kernels do not support the batch.
    """
    if not can_sample(plan):
        return NotImplemented
    from gnnak.fast.sampling.greedy import sample_greedily

    rank = random_order(subgraphs, generator)
    return sample_greedily(subgraphs, plan, min_coverage, rank, farthest, ties)


def _can_pad(value: Tensor) -> bool:
    """Return whether the Triton kernels for padding can run on a tensor."""
    return has_triton() and (value.is_cuda or interprets_triton())
