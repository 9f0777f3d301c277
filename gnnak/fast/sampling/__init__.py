"""SubgraphDrop (random sampling of rooted subgraphs in training) as Triton kernels.

Each Triton program handles one connected component of a batch of graphs.
"""

import torch

from gnnak.optional import has_triton, interprets_triton
from gnnak.sampling.plan import Plan

FAST_NODES = 256
"""Maximum number of nodes per connected component in the Triton kernels that sample
roots."""
MIN_BLOCK = 64
"""Smallest block size (nodes per program) for which the Triton kernels are compiled.

The block size is a power of two, and at least the number of nodes of the batch's
largest connected component. A batch that needs a new block size triggers a compilation
in the middle of an epoch; this minimum makes such compilations rare."""


def can_sample(plan: Plan) -> bool:
    """Return whether the Triton kernels can sample roots in a batch of graphs.

    They can if Triton is installed, `torch.compile` is not tracing, every connected
    component has at most `FAST_NODES` nodes, and the batch is on a CUDA device (or
    Triton's interpreter is on).

    Args:
        plan: The sampling plan: what SubgraphDrop precomputes for the batch.
    """
    if torch.compiler.is_compiling() or plan.largest > FAST_NODES or not has_triton():
        return False
    return plan.held.is_cuda or interprets_triton()


def block_of(plan: Plan) -> int:
    """Return the block size of the Triton kernels: how many nodes one program handles.

    This is the number of nodes of the batch's largest connected component, rounded up
    to a power of two, and at least `MIN_BLOCK`.

    Args:
        plan: The sampling plan: what SubgraphDrop precomputes for the batch.
    """
    return max(2 ** (plan.largest - 1).bit_length(), MIN_BLOCK)
