"""Gathers and segment sums whose gradients are sums over sorted groups.

PyTorch's gradient of a gather adds rows with atomics, in random order. Here every row
is summed by one program from its group: the same bits each time, and faster where few
rows get many gradients.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnak.fast.kernels import kernels_for
from gnnak.subgraphs.groups import Groups

SMALL_TABLE = 128
"""Largest number of rows of a table whose gradient `lookup_rows` sums."""


def gather_rows(values: Tensor, index: Tensor, groups: Groups) -> Tensor:
    """Return the rows `index` [m] of `values` [r, c], as [m, c].

    Args:
        values: The rows.
        index: Which rows, [m].
        groups: `index`, grouped: the entries that name each row.
    """
    return _Gather.apply(values, index, groups)


def sum_rows(values: Tensor, index: Tensor, groups: Groups) -> Tensor:
    """Sum the rows of `values` [m, c] that share an index, as [r, c]."""
    return _Sum.apply(values, index, groups)


def lookup_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return the rows `index` [m] of a small table [k, c], as [m, c]."""
    return _Lookup.apply(table, index)


class _Gather(torch.autograd.Function):
    """Gather rows; the gradient is a segment sum, which is differentiable again."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, groups: Groups) -> Tensor:
        ctx.index, ctx.groups = index, groups
        return values.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Sum.apply(grad, ctx.index, ctx.groups), None, None


class _Sum(torch.autograd.Function):
    """Sum rows by group; the gradient is a gather, which is differentiable again."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, groups: Groups) -> Tensor:
        ctx.index, ctx.groups = index, groups
        return kernels_for(values).sum_by(values.contiguous(), groups)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Gather.apply(grad, ctx.index, ctx.groups), None, None


class _Lookup(torch.autograd.Function):
    """Look up rows of a small table; each table row's gradient is summed apart."""

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
