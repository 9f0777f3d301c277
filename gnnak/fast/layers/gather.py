"""Gathers and segment sums whose gradients are sums over sorted groups.

PyTorch computes the gradient of a gather with atomic additions, in random order. Here
one GPU program sums all gradients of a row: the result is deterministic, and faster
where few rows get many gradients.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnak.fast.kernels import kernels_for
from gnnak.subgraphs.groups import Groups

SMALL_TABLE = 128
"""Largest number of rows of a table for `lookup_rows`."""


def gather_rows(values: Tensor, index: Tensor, groups: Groups) -> Tensor:
    """Return the rows `index` [m] of `values` [r, c], as [m, c].

    Args:
        values: The rows.
        index: The rows to gather, [m].
        groups: The positions in `index` grouped by their row; r groups.
    """
    return _Gather.apply(values, index, groups)


def sum_rows(values: Tensor, index: Tensor, groups: Groups) -> Tensor:
    """Sum the rows of `values` [m, c] that share an index, as [r, c].

    Args:
        values: The rows.
        index: The output row that each row is added to, [m].
        groups: The positions in `index` grouped by output row; r groups.
    """
    return _Sum.apply(values, index, groups)


def lookup_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return the rows `index` [m] of a table [k, c] of up to 128 rows, as [m, c]."""
    return _Lookup.apply(table, index)


class _Gather(torch.autograd.Function):
    """Gather rows; the gradient is a segment sum, which can be differentiated."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, groups: Groups) -> Tensor:
        ctx.index, ctx.groups = index, groups
        return values.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Sum.apply(grad, ctx.index, ctx.groups), None, None


class _Sum(torch.autograd.Function):
    """Sum rows by group; the gradient is a gather, which can be differentiated."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, groups: Groups) -> Tensor:
        ctx.index, ctx.groups = index, groups
        return kernels_for(values).sum_by(values.contiguous(), groups)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Gather.apply(grad, ctx.index, ctx.groups), None, None


class _Lookup(torch.autograd.Function):
    """Look up rows of a small table; the gradient of each table row is one sum."""

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
