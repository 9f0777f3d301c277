"""Kernels of the fused layers: in Triton (`gpu`), and in PyTorch (`plain`)."""

from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from gnnak.fast.kernels import plain
from gnnak.optional import has_triton, interprets_triton

DTYPES = (torch.float, torch.half, torch.bfloat16)
"""The dtypes of tensors that the Triton kernels read on a GPU."""


def kernels_for(values: Tensor) -> ModuleType:
    return _gpu_kernels() if has_fast_kernels(values) else plain


@cache
def _gpu_kernels() -> ModuleType:
    from gnnak.fast.kernels import gpu

    return gpu


def kernels_of_backward(values: Tensor) -> ModuleType:
    """Return the kernels of a backward pass: `plain` if that pass is differentiated."""
    return plain if torch.is_grad_enabled() else kernels_for(values)


def runs_kernels(tensor: Tensor) -> bool:
    """Return whether Triton or its interpreter can run on the device of `tensor`."""
    return has_triton() and (tensor.is_cuda or interprets_triton())


def has_fast_kernels(values: Tensor) -> bool:
    """Return whether Triton or its interpreter can run the kernels on `values`."""
    if torch.compiler.is_compiling() or not has_triton():
        return False
    if values.is_cuda and values.dtype in DTYPES:
        return True
    return interprets_triton()
