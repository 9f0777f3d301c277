"""Gated sums over groups of rows, in Triton.

A gate is a row of factors, looked up in a small table by the distance to the root.
There is a row of states for each node copy (a node as it occurs in one rooted
subgraph). The multiplied rows are never stored.
"""

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.tiles import cdiv, load_index, wide_columns, widened
from gnnak.fast.kernels.records import GatedSum


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
