"""Kernels of the fused layers: in Triton for a GPU, with a plain PyTorch reference.

`kernels_for(tensor)` returns the package to call, `gpu` or `plain`. Both export the
same functions, which compute values and gradients without autograd; the layers in
`gnnak.fast.layers` combine them into `torch.autograd.Function`s.
"""

from types import ModuleType

import torch
from torch import Tensor

from gnnak.fast.kernels import plain
from gnnak.optional import has_triton, interprets_triton


def kernels_for(values: Tensor) -> ModuleType:
    """Return the kernels for tensors with the device and dtype of `values`.

    These are the Triton kernels, `gnnak.fast.kernels.gpu`, where they can run, and else
    `gnnak.fast.kernels.plain`; both modules have the same functions.
    """
    if has_fast_kernels(values):
        from gnnak.fast.kernels import gpu

        return gpu
    return plain


def has_fast_kernels(values: Tensor) -> bool:
    """Whether the Triton kernels can run on `values`.

    They need Triton, float32 tensors on a CUDA device, and code that `torch.compile` is
    not tracing. Under Triton's interpreter (`TRITON_INTERPRET=1`, for tests) they take
    any tensor.
    """
    if torch.compiler.is_compiling() or not has_triton():
        return False
    on_gpu = values.is_cuda and values.dtype == torch.float
    return on_gpu or interprets_triton()
