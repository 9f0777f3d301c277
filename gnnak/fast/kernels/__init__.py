"""Kernels of the fused path: in plain PyTorch, and on a GPU in Triton."""

from types import ModuleType

import torch
from torch import Tensor

from gnnak.fast.kernels import plain
from gnnak.optional import has_triton, interprets_triton


def kernels_for(values: Tensor) -> ModuleType:
    """The kernels for tensors like this one; all have the names of `plain`."""
    if has_fast_kernels(values):
        from gnnak.fast.kernels import gpu

        return gpu
    return plain


def has_fast_kernels(values: Tensor) -> bool:
    """Whether there are faster kernels than PyTorch's for tensors like this one."""
    if torch.compiler.is_compiling() or not has_triton():
        return False
    on_gpu = values.is_cuda and values.dtype == torch.float
    return on_gpu or interprets_triton()
