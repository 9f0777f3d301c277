"""Gathers and segment sums without atomic additions.

The gradient of a gather is a segment sum, and the gradient of a segment sum is a
gather. PyTorch computes segment sums with atomic additions, in random order. Here one
Triton program sums all rows of a segment. The result is deterministic, and segments
with many rows are summed faster.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding

from gnnak.fast.kernels import kernels_for, kernels_of_backward
from gnnak.fast.layers.rows import with_unit_stride
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.groups import Groups

SMALL_TABLE = 256
"""Largest number of rows that a table passed to `lookup_rows` may have."""
SMALL_HOP_TABLE = 128
"""Largest number of rows that a table of distances may have in fused layers."""


def gather_rows(values: Tensor, index: Tensor, groups: Groups) -> Tensor:
    """Return `values[index]`; the backward pass needs no atomic additions.

    Args:
        values: The matrix to gather rows from, [r, c].
        index: The m row numbers to gather, [m].
        groups: The positions i = 0 to m - 1, grouped by `index[i]`; the backward pass
            sums the rows of each group.

    Returns:
        The gathered rows, [m, c].
    """
    return _Gather.apply(values, index, groups)


def sum_rows(values: Tensor, index: Tensor, groups: Groups) -> Tensor:
    """Sum all rows of `values` that have the same index.

    Args:
        values: The m rows to sum, [m, c].
        index: The output row that each row of `values` is added to, [m].
        groups: The positions i = 0 to m - 1, grouped by `index[i]`.

    Returns:
        One sum per group, [number of groups, c].
    """
    return _Sum.apply(values, index, groups)


def lookup_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return `table[index]`, for a table with at most `SMALL_TABLE` rows.

    The backward pass uses no atomic additions, which are slow if many rows of the
    result come from the same row of the table.

    Args:
        table: A matrix with k rows, [k, c].
        index: The m row numbers to look up, [m].

    Returns:
        The rows of the table, [m, c].
    """
    return _Lookup.apply(table, index)


def embedded_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return `torch.nn.functional.embedding(index, table)`, for a small table.

    As in PyTorch, an index that is out of range is an error. Unlike PyTorch's, the
    backward pass does not sort the indices.

    Args:
        table: A matrix with at most `SMALL_TABLE` rows, [k, c].
        index: The row numbers to look up, of any shape [...].

    Returns:
        The rows of the table, [..., c].
    """
    return _Embedding.apply(table, index)


class _Gather(torch.autograd.Function):
    """Autograd function of `gather_rows`; the backward pass is `sum_rows`.

    The gradient can be differentiated again.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, groups: Groups) -> Tensor:
        ctx.index, ctx.groups = index, groups
        return values.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Sum.apply(grad, ctx.index, ctx.groups), None, None


class _Sum(torch.autograd.Function):
    """Autograd function of `sum_rows`; the backward pass is `gather_rows`.

    The gradient can be differentiated again.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, groups: Groups) -> Tensor:
        ctx.index, ctx.groups = index, groups
        return kernels_for(values).sum_by(values.contiguous(), groups)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Gather.apply(grad, ctx.index, ctx.groups), None, None


class _Embedding(torch.autograd.Function):
    """Autograd function of `embedded_rows`."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.size = table.size(0)
        return embedding(index, table)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        rows = grad.reshape(-1, grad.size(-1)).contiguous()
        index = index.reshape(-1).contiguous()
        return kernels_of_backward(rows).table_sum(rows, index, ctx.size), None


class _Lookup(torch.autograd.Function):
    """Autograd function of `lookup_rows`: gathers rows of a small table."""

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


def fused_fill(values: Tensor, subgraphs: SampledSubgraphs) -> Tensor:
    """Return the encodings of all nodes, given the encodings of the sampled roots.

    SubgraphDrop samples some nodes as roots and drops the subgraphs of all other nodes.
    The encoding of a dropped node is estimated as a weighted sum of the encodings of
    sampled roots. `subgraphs.filling` is the sparse matrix of the weights.

    Args:
        values: The encodings of the s sampled roots, [s, c].
        subgraphs: The sampled subgraphs.

    Returns:
        The encodings of all n nodes, [n, c].
    """
    filling = subgraphs.filling
    by_node, by_root = subgraphs.by("taker"), subgraphs.by("giver")
    entries = (filling.subgraph, by_node, filling.node, by_root, filling.weight)
    return _Fill.apply(values, *entries)


class _Fill(torch.autograd.Function):
    """Autograd function: multiply a sparse matrix with a dense matrix.

    The backward pass applies the same function to the transposed sparse matrix, so
    gradients can be differentiated again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        column: Tensor,
        by_row: Groups,
        row: Tensor,
        by_column: Groups,
        weight: Tensor,
    ) -> Tensor:
        ctx.transposed = (row, by_column, column, by_row, weight)
        arguments = with_unit_stride(values), column, weight, by_row
        return kernels_for(values).weighted_sum(*arguments)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _Fill.apply(grad, *ctx.transposed), *[None] * 5
