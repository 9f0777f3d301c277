"""Kernels of the fused layers: in Triton for a GPU, and in PyTorch as a reference.

`kernels_for(tensor)` returns the package to call: `gpu` (Triton) or `plain` (PyTorch).
Both packages export functions of the same names and arguments. These functions compute
values and gradients without autograd; the layers in `gnnak.fast.layers` combine them
into `torch.autograd.Function`s.
"""

from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from gnnak.fast.kernels import plain
from gnnak.optional import has_triton, interprets_triton

DTYPES = (torch.float, torch.half, torch.bfloat16)
"""The dtypes of tensors that the Triton kernels read on a GPU."""


def kernels_for(values: Tensor) -> ModuleType:
    """Return the package of kernels for the device and dtype of `values`.

    This is `gnnak.fast.kernels.gpu` if the Triton kernels can run on `values` (see
    `has_fast_kernels`), otherwise the PyTorch reference `gnnak.fast.kernels.plain`.
    Functions of the same name in the two packages take the same arguments.
    """
    return _gpu_kernels() if has_fast_kernels(values) else plain


@cache
def _gpu_kernels() -> ModuleType:
    """Import the Triton kernels, which need Triton."""
    from gnnak.fast.kernels import gpu

    return gpu


def kernels_of_backward(values: Tensor) -> ModuleType:
    """Return the package of kernels for a backward pass.

    If the gradients are to be differentiated again (`create_graph=True`), this is the
    PyTorch reference, which autograd can differentiate; else `kernels_for(values)`.
    """
    return plain if torch.is_grad_enabled() else kernels_for(values)


def has_fast_kernels(values: Tensor) -> bool:
    """Return whether the Triton kernels can run on `values`.

    They can if Triton is installed, `torch.compile` is not tracing the calling code,
    and `values` is a float32, float16 or bfloat16 tensor on a CUDA device. With
    Triton's interpreter (`TRITON_INTERPRET=1`, for tests), tensors of any device and
    dtype are supported. Some fused layers need full precision; see `LayerOperations`.
    """
    if torch.compiler.is_compiling() or not has_triton():
        return False
    if values.is_cuda and values.dtype in DTYPES:
        return True
    return interprets_triton()
