"""SubgraphDrop (random sampling of rooted subgraphs in training) as Triton kernels."""

import torch

from gnnak.optional import has_triton, interprets_triton
from gnnak.sampling.plan import Plan

FAST_NODES = 256
"""Maximum number of nodes per connected component in the Triton kernels."""
MIN_BLOCK = 64
"""Smallest block size for which the Triton kernels are compiled. A batch that needs
a new block size triggers a compilation in the middle of an epoch; this minimum makes
such compilations rare."""


def can_sample(plan: Plan) -> bool:
    """Return whether the Triton kernels can sample roots in a batch of graphs."""
    if torch.compiler.is_compiling() or plan.largest > FAST_NODES or not has_triton():
        return False
    return plan.held.is_cuda or interprets_triton()


def block_of(plan: Plan) -> int:
    """Return how many nodes one program handles: a power of two."""
    return max(2 ** (plan.largest - 1).bit_length(), MIN_BLOCK)
