"""Gathers, and segment sums (the gradients of gathers), in Triton."""

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
    """Return `[x[node] || table[rows]]`, or the sum of both if `add`, in one pass."""
    first = x.size(1)
    begin = 0 if add else first
    width = first if table is None else begin + table.size(1)
    if dtype is None:
        dtype = x.dtype if table is None else torch.promote_types(x.dtype, table.dtype)
    out = x.new_empty(node.numel(), width, dtype=dtype)
    _lift[tiles(node.numel(), BLOCK, width)](
        x.contiguous(),
        x if table is None else table.contiguous(),
        node, rows, out, node.numel(), first,
        first if table is None else begin,
        width, BLOCK, columns(width),
    )  # fmt: skip
    return out


def sum_by(values: Tensor, groups: Groups, dtype: torch.dtype | None = None) -> Tensor:
    """Sum the rows of each group, [k, c]; one program sums one group."""
    return _sums(values, groups, dtype=dtype)


def weighted_sum(
    values: Tensor, index: Tensor, weight: Tensor, groups: Groups
) -> Tensor:
    """Multiply a sparse matrix with `values`, [k, c]; one program computes one row."""
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
        values, values.stride(0),
        groups.ptr if index is None else index,
        values if weight is None else weight,
        groups.ptr,
        groups.ptr if groups.order is None else groups.order,
        out, len(groups), width,
        groups.order is not None,
        index is not None,
        wide_columns(width), num_warps=1,
    )  # fmt: skip
    return out


def table_sum(
    values: Tensor, rows: Tensor, size: int, dtype: torch.dtype | None = None
) -> Tensor:
    """Return the gradient of a table from which rows were gathered, [size, c].

    Each program computes the sums of at most 128 rows of the table over one block of
    `values`; the results of all blocks are then added.
    """
    width, entries = values.size(1), min(128, max(16, next_power_of_2(size)))
    count, steps = parts(rows.numel())
    out = values.new_empty(count, size, width, dtype=sum_dtype(values))
    _table_sum[(count, cdiv(width, columns(width)), cdiv(size, entries))](
        values, values.stride(0), rows, out, rows.numel(), steps, size, width, entries,
        SUMMED, columns(width),
    )  # fmt: skip
    return add_up(out).to(dtype or values.dtype)


@for_all_sizes
def _lift(
    x, table, node, rows, out, m, first, begin, width,
    BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Gather one tile: `x` in the columns before `first`, `table` from `begin` on."""
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
    values, stride, index, weight, ptr, order, out, size, width,
    ORDERED: tl.constexpr, WEIGHTED: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Add the rows of one group, weighted or not."""
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
    values, stride, rows, out, m, steps, size, width,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Sum one block of `values` into `SIZE` rows of the table."""
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
