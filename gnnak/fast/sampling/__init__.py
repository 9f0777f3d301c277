"""SubgraphDrop as Triton kernels, with one program per connected component."""

import torch

from gnnak.optional import has_triton, interprets_triton
from gnnak.sampling.plan import Plan

FAST_NODES = 256
"""Largest number of nodes in a component that the kernels support."""
MIN_BLOCK = 64
"""Smallest block size that the kernels are compiled for. Block sizes are powers of two,
and a larger component than before means a new compilation in the middle of an epoch;
this minimum makes that rare."""


def can_sample(plan: Plan) -> bool:
    """Return whether the Triton kernels can sample roots in this plan's batch."""
    if torch.compiler.is_compiling() or plan.largest > FAST_NODES or not has_triton():
        return False
    return plan.held.is_cuda or interprets_triton()


def block_of(plan: Plan) -> int:
    """Return the block size of the kernels: the largest component, padded."""
    return max(2 ** (plan.largest - 1).bit_length(), MIN_BLOCK)
