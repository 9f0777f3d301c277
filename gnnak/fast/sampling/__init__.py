"""Draws of roots, and what they lead to, as Triton kernels: a program a component."""

import torch

from gnnak.optional import has_triton, interprets_triton
from gnnak.sampling.plan import Plan

FAST_NODES = 256
"""Most nodes of a component that the kernels can take."""
LEAST_NODES = 64
"""They are made for this many at least, and powers of two: each takes time to compile,
in the middle of an epoch if the first larger component comes then."""


def can_sample(plan: Plan) -> bool:
    """Return whether the Triton kernels can sample roots with this plan."""
    if torch.compiler.is_compiling() or plan.largest > FAST_NODES or not has_triton():
        return False
    return plan.held.is_cuda or interprets_triton()


def block_of(plan: Plan) -> int:
    """For how many nodes of a component the kernels are made."""
    return max(2 ** (plan.largest - 1).bit_length(), LEAST_NODES)
