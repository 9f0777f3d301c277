"""Gathers, and segment sums (the gradients of gathers), in Triton.

`plain.gather` has the PyTorch reference. A node copy is a node as seen in one rooted
subgraph. `Groups` assign rows to groups, in CSR form (compressed sparse rows).
"""

import torch
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.tiles import (
    BLOCK,
    SUMMED,
    add_up,
    cdiv,
    columns,
    for_all_sizes,
    load_index,
    next_power_of_2,
    parts,
    sum_dtype,
    tiles,
    wide_columns,
    widened,
)
from gnnak.subgraphs.groups import Groups


def lift(
    x: Tensor,
    table: Tensor | None,
    node: Tensor,
    rows: Tensor,
    add: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Gather rows of two tensors and concatenate them: `[x[node] || table[rows]]`.

    The result has one row per node copy (a node as seen in one rooted subgraph): the
    state of the node, and an embedding of the hop (the distance from the root).
    `x[node]` and `table[rows]` are not stored separately.

    Args:
        x: States of the graph's nodes, [n, c].
        table: Embeddings of t hops, [t, h]; None = gather `x` alone.
        node: The row of `x` for each of the m node copies, [m].
        rows: The row of `table` for each of the m node copies, [m].
        add: Whether to add the rows, `x[node] + table[rows]`, instead of concatenating
            them.
        dtype: Data type of the result; None = that of `x` and `table`.

    Returns:
        The states of the node copies, [m, c + h]; [m, c] if `add`.
    """
    first = x.size(1)
    begin = 0 if add else first
    width = first if table is None else begin + table.size(1)
    if dtype is None:
        dtype = x.dtype if table is None else torch.promote_types(x.dtype, table.dtype)
    out = x.new_empty(node.numel(), width, dtype=dtype)
    _lift[tiles(node.numel(), BLOCK, width)](
        x.contiguous(),
        x if table is None else table.contiguous(),
        node,
        rows,
        out,
        node.numel(),
        first,
        first if table is None else begin,
        width,
        BLOCK,
        columns(width),
    )
    return out


def sum_by(values: Tensor, groups: Groups, dtype: torch.dtype | None = None) -> Tensor:
    """Sum the rows of each group: a segment sum.

    One program sums all rows of one group, so no atomic additions are needed.

    Args:
        values: The rows to sum, [m, c].
        groups: Which of the m rows belong to each of k groups.
        dtype: Data type of the sums; None = that of `values`.

    Returns:
        One sum per group, [k, c].
    """
    return _sums(values, groups, dtype=dtype)


def weighted_sum(
    values: Tensor, index: Tensor, weight: Tensor, groups: Groups
) -> Tensor:
    """Multiply a sparse matrix in CSR form with the dense matrix `values`.

    Row g of the result, [k, c], is the sum of `weight[i] * values[index[i]]` over the
    nonzero entries i in row g of the sparse matrix. One program computes one row; the
    gathered and scaled rows are never stored.

    Args:
        values: The dense matrix, with r rows and c columns, [r, c].
        index: The column of each of the q nonzero entries in the sparse matrix, [q].
        weight: The value of each nonzero entry, [q].
        groups: The nonzero entries in each of the k rows of the sparse matrix.
    """
    return _sums(values, groups, index, weight)


def _sums(
    values: Tensor,
    groups: Groups,
    index: Tensor | None = None,
    weight: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Compute `weighted_sum`, or `sum_by` if `index` and `weight` are None."""
    width = values.size(1)
    out = values.new_empty(len(groups), width, dtype=dtype)
    _sum_by[(max(len(groups), 1), cdiv(width, wide_columns(width)))](
        values,
        values.stride(0),
        groups.ptr if index is None else index,
        values if weight is None else weight,
        groups.ptr,
        groups.ptr if groups.order is None else groups.order,
        out,
        len(groups),
        width,
        groups.order is not None,
        index is not None,
        wide_columns(width),
        num_warps=1,
    )
    return out


def table_sum(
    values: Tensor, rows: Tensor, size: int, dtype: torch.dtype | None = None
) -> Tensor:
    """Return the gradient of a table from which rows were gathered, [size, c].

    The forward pass was `table[rows]`. Row i of the result is the sum of all rows of
    `values` at which `rows` is i. Each program computes this sum for one block of
    `values`; the results of all programs are then added.

    Args:
        values: The gradient of the m gathered rows `table[rows]`, [m, c].
        rows: For each gathered row, its index in the table, [m].
        size: Number of rows of the table.
        dtype: Data type of the result; None = that of `values`.
    """
    width, entries = values.size(1), min(128, max(16, next_power_of_2(size)))
    count, steps = parts(rows.numel())
    out = values.new_empty(count, size, width, dtype=sum_dtype(values))
    _table_sum[(count, cdiv(width, columns(width)), cdiv(size, entries))](
        values,
        values.stride(0),
        rows,
        out,
        rows.numel(),
        steps,
        size,
        width,
        entries,
        SUMMED,
        columns(width),
    )
    return add_up(out).to(dtype or values.dtype)


@for_all_sizes
def _lift(
    x,
    table,
    node,
    rows,
    out,
    m,
    first,
    begin,
    width,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `lift`: gather rows of two tensors, one tile per program.

    Rows of `x` go to the columns before `first` of `out`, and rows of `table` to those
    from `begin` on. Other arguments as in `lift`.
    """
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * C + tl.arange(0, C)
    there = row < m
    source = tl.load(node + row, mask=there, other=0).to(tl.int64)
    entry = tl.load(rows + row, mask=there, other=0).to(tl.int64)
    in_x = there[:, None] & (column < first)[None, :]
    in_table = there[:, None] & ((column >= begin) & (column < width))[None, :]
    value = tl.load(x + source[:, None] * first + column[None, :], in_x, 0.0)
    place = entry[:, None] * (width - begin) + column[None, :] - begin
    value = widened(value) + widened(tl.load(table + place, in_table, 0.0))
    place = row.to(tl.int64)[:, None] * width + column[None, :]
    tl.store(out + place, value, mask=in_x | in_table)


@for_all_sizes
def _sum_by(
    values,
    stride,
    index,
    weight,
    ptr,
    order,
    out,
    size,
    width,
    ORDERED: tl.constexpr,
    WEIGHTED: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `sum_by` and `weighted_sum`: add the rows of one group.

    Arguments as in `weighted_sum`; `out` receives one sum per group.
    """
    group = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = (column < width) & (group < size)
    k = tl.load(ptr + group, mask=group < size, other=0)
    end = tl.load(ptr + group + 1, mask=group < size, other=0)
    entry = load_index(order, k, k < end, ORDERED)
    entry_2 = load_index(order, k + 1, k + 1 < end, ORDERED)
    total = widened(tl.zeros([C], dtype=out.dtype.element_ty))
    # Load two rows, then the indices of the next two, and only then add: the latencies
    # of the loads overlap.
    while k < end:
        both = inside & (k + 1 < end)
        row = load_index(index, entry, k < end, WEIGHTED).to(tl.int64)
        row_2 = load_index(index, entry_2, k + 1 < end, WEIGHTED).to(tl.int64)
        value = widened(tl.load(values + row * stride + column, inside, 0.0))
        value_2 = widened(tl.load(values + row_2 * stride + column, both, 0.0))
        if WEIGHTED:
            value *= tl.load(weight + entry).to(value.dtype)
            share = tl.load(weight + entry_2, mask=k + 1 < end, other=0.0)
            value_2 *= share.to(value.dtype)
        k += 2
        entry = load_index(order, k, k < end, ORDERED)
        entry_2 = load_index(order, k + 1, k + 1 < end, ORDERED)
        total += value + value_2
    tl.store(out + group.to(tl.int64) * width + column, total, mask=inside)


@for_all_sizes
def _table_sum(
    values,
    stride,
    rows,
    out,
    m,
    steps,
    size,
    width,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `table_sum`: one program handles one block of `values`.

    The program computes the gradient of `SIZE` rows of the table from these rows alone,
    and writes this gradient to `out[program]`. Arguments as in `table_sum`.
    """
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    entry = tl.program_id(2) * SIZE + tl.arange(0, SIZE)
    inside = column < width
    # Many rows share an entry of the table, so atomic additions would be slow. Multiply
    # a one-hot matrix with the rows instead.
    total = tl.zeros([SIZE, C], dtype=out.dtype.element_ty)
    step = 0
    while step < steps:
        row = (part * steps + step) * BLOCK + tl.arange(0, BLOCK)
        there = row < m
        of = tl.load(rows + row, mask=there, other=-1)
        value = tl.load(
            values + row.to(tl.int64)[:, None] * stride + column[None, :],
            mask=there[:, None] & inside[None, :],
            other=0.0,
        )
        value = widened(value)
        one_hot = (of[None, :] == entry[:, None]).to(value.dtype)
        total += tl.dot(one_hot, value, input_precision="ieee").to(total.dtype)
        step += 1
    place = (part * size + entry).to(tl.int64)[:, None] * width + column[None, :]
    tl.store(out + place, total, mask=(entry < size)[:, None] & inside[None, :])
