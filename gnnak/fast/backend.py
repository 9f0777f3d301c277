"""Build the fast backends, which map names of operations to fast implementations."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gnnak.backend import Backend
from gnnak.fast.kernels import has_fast_kernels
from gnnak.fast.operations import (
    BatchOperations,
    CpuOperations,
    LayerOperations,
    PairOperations,
    StepOperations,
    is_full_on_cpu,
)
from gnnak.optional import has_triton, interprets_triton


def default_backend() -> Backend:
    """Return the backend for this machine.

    With a GPU, or with Triton's interpreter, this is the backend of `make_backend`;
    tensors on a CPU then run in plain PyTorch. Without a GPU, this is `cpu_backend`.
    Triton's interpreter runs the GPU kernels on a CPU, slowly, for tests.
    """
    if torch.cuda.is_available() or (has_triton() and interprets_triton()):
        return make_backend()
    return cpu_backend()


def cpu_backend(min_copies: int = 5000) -> Backend:
    """Build the backend for machines without a GPU.

    Args:
        min_copies: Least number of node copies (nodes as they occur in one rooted
            subgraph) in a batch; smaller batches run in plain PyTorch.
    """
    pairs = _methods(PairOperations(is_full_on_cpu))
    return Backend("cpu", _methods(CpuOperations(min_copies)) | pairs)


def make_backend(serves: Callable[[Tensor], bool] = has_fast_kernels) -> Backend:
    """Build the backend for GPUs.

    Args:
        serves: Takes the input tensor of an operation and returns whether the fast
            implementation may be used. The default returns whether Triton kernels can
            run on the tensor. Tests pass another function to run fused layers on a CPU,
            with kernels in plain PyTorch.
    """
    found: dict[str, Callable[..., Any]] = {}
    for operations in (
        LayerOperations(serves),
        PairOperations(serves),
        BatchOperations(),
        StepOperations(),
    ):
        found |= _methods(operations)
    return Backend("fast", found)


def _methods(operations: object) -> dict[str, Callable[..., Any]]:
    """Return the public methods of an object, by name."""
    names = [name for name in vars(type(operations)) if not name.startswith("_")]
    return {name: getattr(operations, name) for name in names}
