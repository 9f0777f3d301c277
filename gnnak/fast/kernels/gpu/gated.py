"""Gated sums over groups of rows, and their gradients, in Triton."""

from collections.abc import Sequence

import torch
import triton
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
from gnnak.fast.kernels.records import CentroidRows, GatedGrad, GatedSum


def gated_sums(values: Tensor, sums: Sequence[GatedSum], rows: Tensor) -> list[Tensor]:
    """Multiply each row of `values` by a row of a table, and sum the products by group.

    Row i is multiplied by `table[rows[i]]`. This is done for one or two groupings. One
    program computes one sum, so no atomic additions are needed.

    Args:
        values: The rows to multiply and sum, [m, c].
        sums: For each grouping, its gates and groups.
        rows: For each of the m rows, its row of the tables, [m].

    Returns:
        For each grouping, one sum per group, [k, c].
    """
    width = values.size(1)
    outs = [values.new_empty(len(each.groups), width) for each in sums]
    both, most = (sums[0], sums[-1]), max(len(each.groups) for each in sums)
    _gated_sums[(max(most, 1), cdiv(width, wide_columns(width)), len(sums))](
        values,
        *(values if each.table is None else each.table for each in both),
        rows,
        *(each.groups.ptr for each in both),
        *map(_order, both),
        outs[0],
        outs[-1],
        *(len(each.groups) for each in both),
        width,
        *(each.table is not None for each in both),
        *(each.groups.order is not None for each in both),
        wide_columns(width),
        num_warps=1,
    )
    return outs


def _order(each: GatedSum) -> Tensor:
    """Return the permutation of the groups; without one, a tensor that is not read."""
    return each.groups.ptr if each.groups.order is None else each.groups.order


@for_all_sizes
def _gated_sums(
    values,
    table,
    table_2,
    rows,
    ptr,
    ptr_2,
    order,
    order_2,
    out,
    out_2,
    size,
    size_2,
    width,
    GATED: tl.constexpr,
    GATED_2: tl.constexpr,
    ORDERED: tl.constexpr,
    ORDERED_2: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `gated_sums`: multiply and add the rows of one group.

    The third index of the program is the grouping. Other arguments as in `gated_sums`;
    `out` and `out_2` receive one sum per group.
    """
    if tl.program_id(2) == 0:
        sum_group(values, table, rows, ptr, order, out, size, width, GATED, ORDERED, C)
    else:
        sum_group(
            values,
            table_2,
            rows,
            ptr_2,
            order_2,
            out_2,
            size_2,
            width,
            GATED_2,
            ORDERED_2,
            C,
        )


@triton.jit
def sum_group(
    values,
    table,
    rows,
    ptr,
    order,
    out,
    size,
    width,
    GATED: tl.constexpr,
    ORDERED: tl.constexpr,
    C: tl.constexpr,
):
    """Multiply the rows of one group by their gates, add them, and store the sum.

    Arguments as in `_gated_sums`, for one grouping.
    """
    group = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    live = group < size
    inside = (column < width) & live
    k = tl.load(ptr + group, mask=live, other=0)
    end = tl.load(ptr + group + 1, mask=live, other=0)
    entry = load_index(order, k, k < end, ORDERED).to(tl.int64)
    hop = tl.load(rows + entry, mask=(k < end) & GATED, other=0).to(tl.int64)
    total = widened(tl.zeros([C], dtype=out.dtype.element_ty))
    # Load a row, then the indices of the next row, and only then add: the latencies of
    # the loads overlap.
    while k < end:
        value = widened(tl.load(values + entry * width + column, inside, 0.0))
        if GATED:
            value *= widened(tl.load(table + hop * width + column, inside, 0.0))
        k += 1
        entry = load_index(order, k, k < end, ORDERED).to(tl.int64)
        hop = tl.load(rows + entry, mask=(k < end) & GATED, other=0).to(tl.int64)
        total += value
    tl.store(out + group.to(tl.int64) * width + column, total, mask=inside)


def gated_sums_backward(
    values: Tensor,
    sums: Sequence[GatedGrad],
    rows: Tensor,
    centroids: CentroidRows | None,
) -> tuple[Tensor, list[Tensor | None]]:
    """Compute the gradients of one or two sums, and of the centroids' rows.

    Args:
        values: The rows that were summed, [m, c].
        sums: For each of the sums, its gradient, its gates, and the group of each row.
            All tables of gates have the same number of rows.
        rows: For each of the m rows, its row of the tables, [m].
        centroids: Gradients to add to the rows of centroids; None = add nothing.

    Returns:
        The gradient of `values`, [m, c], and of the table of each sum, [t, c]; None for
        a sum without gates.
    """
    (m, width), out = values.shape, torch.empty_like(values)
    both = (sums[0], sums[-1])
    _gated_rows[tiles(m, BLOCK, width)](
        *(each.grad for each in both),
        *(each.grad.stride(0) for each in both),
        *(values if each.table is None else each.table for each in both),
        *(each.key for each in both),
        rows,
        values if centroids is None else centroids.values,
        width if centroids is None else centroids.values.stride(0),
        rows if centroids is None else centroids.centroid,
        rows if centroids is None else centroids.subgraph,
        out,
        m,
        width,
        *(each.table is not None for each in both),
        len(sums) == 2,
        centroids is not None,
        BLOCK,
        columns(width),
    )
    return out, _table_grads(values, sums, rows)


def _table_grads(
    values: Tensor, sums: Sequence[GatedGrad], rows: Tensor
) -> list[Tensor | None]:
    """Return the gradient of each sum's table of gates; None where there is none.

    Arguments as in `gated_sums_backward`.
    """
    gated = [each for each in sums if each.table is not None]
    table = gated[0].table if gated else None
    if table is None:
        return [None] * len(sums)
    (m, width), size = values.shape, table.size(0)
    programs, steps = parts(m)
    shape = (programs, len(gated), size, width)
    partial = values.new_empty(*shape, dtype=sum_dtype(values))
    _gated_tables[(programs, cdiv(width, columns(width)), len(gated))](
        values,
        gated[0].grad,
        gated[-1].grad,
        gated[0].grad.stride(0),
        gated[-1].grad.stride(0),
        gated[0].key,
        gated[-1].key,
        rows,
        partial,
        m,
        width,
        steps,
        size,
        max(16, next_power_of_2(size)),
        SUMMED,
        columns(width),
    )
    found = iter(add_up(partial).to(table.dtype).unbind())
    return [None if each.table is None else next(found) for each in sums]


@triton.jit
def gate_term(grad, stride, table, key, row, entry, there, column, shown, width, GATED):
    """Return the gradient of each row's group, times the gate of the row.

    Args:
        grad: Pointer to the gradients of the groups' sums.
        stride: Row stride of these gradients.
        table: Pointer to the gates.
        key: Pointer to the group of each row.
        row: The rows of a tile.
        entry: For each of these rows, its row of the table.
        there: The mask of rows that exist.
        column: The columns of the tile.
        shown: The mask of elements of the tile that exist.
        width: Number of columns.
        GATED: Whether there is a table; if False, the result is the gradient.
    """
    group = tl.load(key + row, mask=there, other=0).to(tl.int64)
    place = group[:, None] * stride + column[None, :]
    back = widened(tl.load(grad + place, mask=shown, other=0.0))
    if GATED:
        place = entry.to(tl.int64)[:, None] * width + column[None, :]
        return back * widened(tl.load(table + place, mask=shown, other=0.0))
    return back


@for_all_sizes
def _gated_rows(
    grad,
    grad_2,
    stride,
    stride_2,
    table,
    table_2,
    key,
    key_2,
    rows,
    at_centroid,
    stride_3,
    centroid,
    subgraph,
    out,
    m,
    width,
    GATED: tl.constexpr,
    GATED_2: tl.constexpr,
    TWO: tl.constexpr,
    CENTROIDS: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `gated_sums_backward`: compute the gradients of a block of rows.

    Arguments as in `gated_sums_backward`; `out` receives the gradients.
    """
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * C + tl.arange(0, C)
    there, inside = row < m, column < width
    shown = there[:, None] & inside[None, :]
    entry = tl.load(rows + row, mask=there, other=0)
    total = gate_term(
        grad, stride, table, key, row, entry, there, column, shown, width, GATED
    )
    if TWO:
        total += gate_term(
            grad_2,
            stride_2,
            table_2,
            key_2,
            row,
            entry,
            there,
            column,
            shown,
            width,
            GATED_2,
        )
    if CENTROIDS:
        of = tl.load(subgraph + row, mask=there, other=0).to(tl.int64)
        is_root = there & (tl.load(centroid + of, mask=there, other=-1) == row)
        place = of[:, None] * stride_3 + column[None, :]
        asked = is_root[:, None] & inside[None, :]
        total += widened(tl.load(at_centroid + place, mask=asked, other=0.0))
    place = row.to(tl.int64)[:, None] * width + column[None, :]
    tl.store(out + place, total, mask=shown)


@for_all_sizes
def _gated_tables(
    values,
    grad,
    grad_2,
    stride,
    stride_2,
    key,
    key_2,
    rows,
    partial,
    m,
    width,
    steps,
    size,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `_table_grads`: one program handles one block of rows.

    `partial[program]` receives the gradient of one table from these rows alone. The
    third index of the program is the table. Other arguments as in `_table_grads`.
    """
    part, which = tl.program_id(0), tl.program_id(2)
    column = tl.program_id(1) * C + tl.arange(0, C)
    slot = tl.arange(0, SIZE)
    inside = column < width
    if which == 1:
        grad, key = grad_2, key_2
    of_grad = tl.where(which == 1, stride_2, stride)
    total = tl.zeros([SIZE, C], dtype=partial.dtype.element_ty)
    step = 0
    while step < steps:
        row = (part * steps + step) * BLOCK + tl.arange(0, BLOCK)
        there = row < m
        shown = there[:, None] & inside[None, :]
        entry = tl.load(rows + row, mask=there, other=-1)
        group = tl.load(key + row, mask=there, other=0).to(tl.int64)
        place = row.to(tl.int64)[:, None] * width + column[None, :]
        value = widened(tl.load(values + place, mask=shown, other=0.0))
        place = group[:, None] * of_grad + column[None, :]
        value *= widened(tl.load(grad + place, mask=shown, other=0.0))
        one_hot = (entry[None, :] == slot[:, None]).to(value.dtype)
        total += tl.dot(one_hot, value, input_precision="ieee").to(total.dtype)
        step += 1
    first = (part * tl.num_programs(2) + which) * size
    place = (first + slot).to(tl.int64)[:, None] * width + column[None, :]
    tl.store(partial + place, total, mask=(slot < size)[:, None] & inside[None, :])
