"""Build the fast backend, which maps names of operations to fast implementations."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gnnak.backend import PLAIN, Backend
from gnnak.fast.kernels import has_fast_kernels
from gnnak.fast.operations.batches import BatchOperations
from gnnak.fast.operations.layers import LayerOperations
from gnnak.fast.operations.steps import StepOperations
from gnnak.optional import has_triton, interprets_triton


def default_backend() -> Backend:
    """Return the fast backend if there is a GPU or if Triton's interpreter is on.

    Otherwise return `PLAIN`, the backend in plain PyTorch. Triton's interpreter runs
    the GPU kernels on a CPU, slowly, for tests.
    """
    if torch.cuda.is_available() or (has_triton() and interprets_triton()):
        return make_backend()
    return PLAIN


def make_backend(serves: Callable[[Tensor], bool] = has_fast_kernels) -> Backend:
    """Build the fast backend.

    Args:
        serves: Takes the input tensor of an operation and returns whether the fast
            implementation may be used. The default returns whether Triton kernels can
            run on the tensor. Tests pass another function to run fused layers on a CPU,
            with kernels in plain PyTorch.
    """
    found: dict[str, Callable[..., Any]] = {}
    for operations in (LayerOperations(serves), BatchOperations(), StepOperations()):
        names = [name for name in vars(type(operations)) if not name.startswith("_")]
        found |= {name: getattr(operations, name) for name in names}
    return Backend("fast", found)
