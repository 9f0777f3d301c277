"""Gathers and segment reductions: the only place that knows how they are made fast."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnak.fast.kernels import has_fast_kernels, kernels_for
from gnnak.typing import Reduce

SMALL = 128
"""Rows of a table whose gradient is summed without atomics."""


def gather(values: Tensor, index: Tensor) -> Tensor:
    """Rows of `values` [r, c] named by `index` [m], as [m, c]."""
    return values.index_select(0, index)


def lookup(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a small table [k, c], each named many times by `index` [m], as [m, c]."""
    if table.size(0) > SMALL or not has_fast_kernels(table):
        return table.index_select(0, index)
    return _Lookup.apply(table, index)


def segment_reduce(values: Tensor, index: Tensor, size: int, reduce: Reduce) -> Tensor:
    """Sum or mean of the rows of `values` [m, c] that share an index, as [size, c].

    Rows that no index names are zero. Half-precision rows are summed in float32.

    >>> import torch
    >>> rows = torch.tensor([[1.0], [2.0], [6.0]])
    >>> segment_reduce(rows, torch.tensor([0, 2, 2]), 4, "mean").flatten()
    tensor([1., 0., 4., 0.])
    """
    wide = values.float() if values.dtype.itemsize < 4 else values
    pooled = wide.new_zeros(size, wide.size(1)).index_add(0, index, wide)
    if reduce == "mean":
        count = wide.new_zeros(size).index_add(0, index, wide.new_ones(index.numel()))
        pooled = pooled / count.clamp(min=1)[:, None]
    return pooled.to(values.dtype)


class _Lookup(torch.autograd.Function):
    """Few rows get many gradients: each is summed up for itself, none waits."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        index = index.contiguous()
        ctx.save_for_backward(index)
        ctx.size = table.size(0)
        return kernels_for(table).lift(table, None, index, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return kernels_for(grad).table_sum(grad.contiguous(), index, ctx.size), None
