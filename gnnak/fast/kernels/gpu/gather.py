"""Gathers, segment sums, gated sums, and pools of normalised states, in Triton."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.norm import load_columns, norm_correction, sums_of_all
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
from gnnak.fast.kernels.records import CentroidRows, GatedPool, NormConstants
from gnnak.subgraphs.groups import Groups


def lift(
    x: Tensor,
    table: Tensor | None,
    node: Tensor,
    rows: Tensor,
    add: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
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


def add_lifted(into: Tensor, x: Tensor, node: Tensor) -> None:
    rows, width = into.shape
    _add_lifted[tiles(rows, BLOCK, width)](
        into, into.stride(0), x.contiguous(), node, rows, width, BLOCK, columns(width)
    )


def sum_by(
    values: Tensor,
    groups: Groups,
    dtype: torch.dtype | None = None,
    entries: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    width = values.size(1)
    index, weight = (groups.ptr, values) if entries is None else entries
    out = values.new_empty(len(groups), width, dtype=dtype)
    _sum_by[(max(len(groups), 1), cdiv(width, wide_columns(width)))](
        values, values.stride(0), index, weight, groups.ptr,
        groups.ptr if groups.order is None else groups.order,
        out, len(groups), width,
        groups.order is not None,
        entries is not None,
        wide_columns(width), num_warps=1,
    )  # fmt: skip
    return out


def table_sum(
    values: Tensor, rows: Tensor, size: int, dtype: torch.dtype | None = None
) -> Tensor:
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
    """Write `x[node]` to columns < `first`; add `table[rows]` to columns >= `begin`."""
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
def _add_lifted(into, stride, x, node, m, width, BLOCK: tl.constexpr, C: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * C + tl.arange(0, C)
    there, inside = row < m, column < width
    shown = there[:, None] & inside[None, :]
    source = tl.load(node + row, mask=there, other=0).to(tl.int64)
    place = row.to(tl.int64)[:, None] * stride + column[None, :]
    value = widened(tl.load(into + place, mask=shown, other=0.0))
    from_x = source[:, None] * width + column[None, :]
    value += widened(tl.load(x + from_x, mask=shown, other=0.0))
    tl.store(into + place, value, mask=shown)


@for_all_sizes
def _sum_by(
    values, stride, index, weight, ptr, order, out, size, width,
    ORDERED: tl.constexpr, WEIGHTED: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
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
    """Sum one block of `values` into `SIZE` rows of the table's gradient."""
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


def gated_sums(
    values: Tensor,
    tables: Sequence[Tensor | None],
    pools: Sequence[GatedPool],
    rows: Tensor | None,
) -> list[Tensor]:
    width = values.size(1)
    outs = [values.new_empty(len(pool.groups), width) for pool in pools]
    groups, gates = (pools[0].groups, pools[-1].groups), (tables[0], tables[-1])
    most = max(map(len, groups))
    _gated_sums[(max(most, 1), cdiv(width, wide_columns(width)), len(pools))](
        values,
        *(values if table is None else table for table in gates),
        groups[0].ptr if rows is None else rows,
        *(each.ptr for each in groups),
        *(each.ptr if each.order is None else each.order for each in groups),
        outs[0], outs[-1],
        *map(len, groups),
        width,
        *(table is not None for table in gates),
        rows is not None,
        *(each.order is not None for each in groups),
        wide_columns(width), num_warps=1,
    )  # fmt: skip
    return outs


@for_all_sizes
def _gated_sums(
    values, table, table_2, rows, ptr, ptr_2, order, order_2, out, out_2, size, size_2,
    width,
    GATED: tl.constexpr, GATED_2: tl.constexpr, TABLE: tl.constexpr,
    ORDERED: tl.constexpr, ORDERED_2: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Sum one group of the first pool, or of the second if `program_id(2)` is 1."""
    if tl.program_id(2) == 0:
        sum_group(
            values, table, rows, ptr, order, out, size, width, GATED, TABLE, ORDERED, C
        )
    else:
        sum_group(
            values, table_2, rows, ptr_2, order_2, out_2, size_2, width, GATED_2, TABLE,
            ORDERED_2, C,
        )  # fmt: skip


@triton.jit
def load_gate(gate, stride, entry, column, shown, TABLE: tl.constexpr):
    """Load gates from rows of a table; without `TABLE`, from rows of logits."""
    place = entry.to(tl.int64) * stride + column
    value = widened(tl.load(gate + place, mask=shown, other=0.0))
    if TABLE:
        return value
    return 1 / (1 + tl.exp(-value))


@triton.jit
def sum_group(
    values, table, rows, ptr, order, out, size, width,
    GATED: tl.constexpr, TABLE: tl.constexpr, ORDERED: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Multiply the rows of one group by their gates, add them, and store the sum."""
    group = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    live = group < size
    inside = (column < width) & live
    k = tl.load(ptr + group, mask=live, other=0)
    end = tl.load(ptr + group + 1, mask=live, other=0)
    entry = load_index(order, k, k < end, ORDERED).to(tl.int64)
    hop = load_index(rows, entry, (k < end) & GATED, TABLE)
    total = widened(tl.zeros([C], dtype=out.dtype.element_ty))
    # Load a row, then the indices of the next row, and only then add: the latencies of
    # the loads overlap.
    while k < end:
        value = widened(tl.load(values + entry * width + column, inside, 0.0))
        if GATED:
            value *= load_gate(table, width, hop, column, inside, TABLE)
        k += 1
        entry = load_index(order, k, k < end, ORDERED).to(tl.int64)
        hop = load_index(rows, entry, (k < end) & GATED, TABLE)
        total += value
    tl.store(out + group.to(tl.int64) * width + column, total, mask=inside)


def gated_sums_backward(
    values: Tensor,
    grads: Sequence[Tensor],
    tables: Sequence[Tensor | None],
    pools: Sequence[GatedPool],
    rows: Tensor | None,
    centroids: CentroidRows | None,
) -> tuple[Tensor, list[Tensor | None]]:
    (m, width), out = values.shape, torch.empty_like(values)
    gates, key = (tables[0], tables[-1]), pools[0].key
    _gated_rows[tiles(m, BLOCK, width)](
        values, grads[0], grads[-1], grads[0].stride(0), grads[-1].stride(0),
        *(values if table is None else table for table in gates),
        key, pools[-1].key,
        key if rows is None else rows,
        values if centroids is None else centroids.values,
        width if centroids is None else centroids.values.stride(0),
        key if centroids is None else centroids.centroid,
        key if centroids is None else centroids.subgraph,
        out, m, width,
        *(table is not None for table in gates),
        rows is not None,
        len(pools) == 2,
        centroids is not None,
        BLOCK, columns(width),
    )  # fmt: skip
    if rows is None:
        return out, list(tables)
    parts_of = zip(grads, tables, pools, strict=True)
    gated = [(grad, table, p.key) for grad, table, p in parts_of if table is not None]
    found = iter(_table_grads(values, gated, rows) if gated else ())
    return out, [None if table is None else next(found) for table in tables]


def _table_grads(
    values: Tensor, gated: list[tuple[Tensor, Tensor, Tensor]], rows: Tensor
) -> tuple[Tensor, ...]:
    """Return each pool's table gradient; `gated` lists (gradient, table, key)."""
    (grad, table, key), (grad_2, _, key_2) = gated[0], gated[-1]
    (m, width), size = values.shape, table.size(0)
    programs, steps = parts(m)
    shape = (programs, len(gated), size, width)
    partial = values.new_empty(*shape, dtype=sum_dtype(values))
    _gated_tables[(programs, cdiv(width, columns(width)), len(gated))](
        values, grad, grad_2, grad.stride(0), grad_2.stride(0), key, key_2, rows,
        partial, m, width, steps, size, max(16, next_power_of_2(size)), SUMMED,
        columns(width),
    )  # fmt: skip
    return add_up(partial).to(table.dtype).unbind()


@triton.jit
def gate_term(
    values, grad, stride, table, key, row, entry, there, column, shown, width,
    GATED: tl.constexpr, TABLE: tl.constexpr,
):  # fmt: skip
    """Return the gradient of each row's group, times the gate of the row if `GATED`.

    Without `TABLE`, also overwrite the logits of the gates with their gradients.
    """
    group = tl.load(key + row, mask=there, other=0).to(tl.int64)
    place = group[:, None] * stride + column[None, :]
    back = widened(tl.load(grad + place, mask=shown, other=0.0))
    if GATED:
        share = load_gate(table, width, entry[:, None], column[None, :], shown, TABLE)
        if not TABLE:
            place = entry[:, None] * width + column[None, :]
            value = widened(tl.load(values + place, mask=shown, other=0.0))
            tl.store(table + place, back * value * share * (1 - share), mask=shown)
        back *= share
    return back


@for_all_sizes
def _gated_rows(
    values, grad, grad_2, stride, stride_2, table, table_2, key, key_2, rows,
    at_centroid, stride_3, centroid, subgraph, out, m, width,
    GATED: tl.constexpr, GATED_2: tl.constexpr, TABLE: tl.constexpr, TWO: tl.constexpr,
    CENTROIDS: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * C + tl.arange(0, C)
    there, inside = row < m, column < width
    shown = there[:, None] & inside[None, :]
    entry = load_index(rows, row.to(tl.int64), there, TABLE)
    total = gate_term(
        values, grad, stride, table, key, row, entry, there, column, shown, width,
        GATED, TABLE,
    )  # fmt: skip
    if TWO:
        total += gate_term(
            values, grad_2, stride_2, table_2, key_2, row, entry, there, column, shown,
            width, GATED_2, TABLE,
        )  # fmt: skip
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
    values, grad, grad_2, stride, stride_2, key, key_2, rows, partial, m, width, steps,
    size,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Add up what one block of rows contributes to the gradient of a table of gates."""
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


def gate_pool(
    z: Tensor,
    k: NormConstants,
    gate: Tensor | None,
    rows: Tensor | None,
    groups: Groups,
) -> Tensor:
    width = z.size(1)
    out = z.new_empty(len(groups), width, dtype=sum_dtype(z))
    _gate_pool[(max(len(groups), 1), cdiv(width, wide_columns(width)))](
        z, z.stride(0), k.scale, k.shift,
        z if gate is None else gate,
        0 if gate is None else gate.stride(0),
        groups.ptr if rows is None else rows,
        groups.ptr,
        groups.ptr if groups.order is None else groups.order,
        out, len(groups), width,
        gate is not None,
        rows is not None,
        groups.order is not None,
        wide_columns(width), num_warps=1,
    )  # fmt: skip
    return out


@for_all_sizes
def _gate_pool(
    z, stride, scale, shift, gate, gate_stride, rows, ptr, order, out, size, width,
    GATED: tl.constexpr, TABLE: tl.constexpr, ORDERED: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = (column < width) & (group < size)
    k = tl.load(ptr + group, mask=group < size, other=0)
    end = tl.load(ptr + group + 1, mask=group < size, other=0)
    scale_ = tl.load(scale + column, mask=inside, other=0.0)
    shift_ = tl.load(shift + column, mask=inside, other=0.0)
    copy = load_index(order, k, k < end, ORDERED)
    copy_2 = load_index(order, k + 1, k + 1 < end, ORDERED)
    total = tl.zeros([C], dtype=out.dtype.element_ty)
    # Load two rows, then the indices of the next two, and only then add: the latencies
    # of the loads overlap.
    while k < end:
        both = inside & (k + 1 < end)
        value = tl.load(z + copy.to(tl.int64) * stride + column, mask=inside, other=0.0)
        value_2 = tl.load(
            z + copy_2.to(tl.int64) * stride + column, mask=both, other=0.0
        )
        value = tl.maximum(value * scale_ + shift_, 0.0)
        value_2 = tl.maximum(value_2 * scale_ + shift_, 0.0)
        if GATED:
            entry = load_index(rows, copy, k < end, TABLE)
            entry_2 = load_index(rows, copy_2, k + 1 < end, TABLE)
            value *= load_gate(gate, gate_stride, entry, column, inside, TABLE)
            value_2 *= load_gate(gate, gate_stride, entry_2, column, both, TABLE)
        k += 2
        copy = load_index(order, k, k < end, ORDERED)
        copy_2 = load_index(order, k + 1, k + 1 < end, ORDERED)
        total += value + tl.where(both, value_2, 0.0)
    tl.store(out + group.to(tl.int64) * width + column, total, mask=inside)


def gate_pool_backward(
    grad: Tensor,
    z: Tensor,
    k: NormConstants,
    gate: Tensor | None,
    rows: Tensor | None,
    key: Tensor,
    into: Tensor,
) -> tuple[Tensor, Tensor, Tensor | None]:
    copies, width = z.shape
    count, steps = parts(copies)
    gated, table, padded = gate is not None, rows is not None, k.real is not None
    size = gate.size(0) if gate is not None and table else 0
    partial = z.new_empty(count, 2 + size, width, dtype=sum_dtype(z))
    shared = (
        grad, grad.stride(0), z, z.stride(0), *k[:4],
        z if gate is None else gate,
        0 if gate is None else gate.stride(0),
        key if rows is None else rows,
        key,
        k.real if padded else z,
    )  # fmt: skip
    _pool_sums[(count, cdiv(width, columns(width)))](
        *shared, partial, copies, width, steps, size, gated, table, padded,
        max(16, next_power_of_2(size)), SUMMED, columns(width),
    )  # fmt: skip
    sums = add_up(partial)
    _pool_to_rows[tiles(copies, BLOCK, width)](
        *shared, sums_of_all(sums, k),
        z if k.total is None else k.total,
        into, into.stride(0), copies, width, gated, table, k.of_batch, padded,
        k.total is not None,
        BLOCK, columns(width),
    )  # fmt: skip
    return sums[1], sums[0], sums[2:] if gated and table else gate


@for_all_sizes
def _pool_sums(
    grad, grad_stride, z, stride, scale, shift, mean, rstd, gate, gate_stride, rows,
    key, real, partial, copies, width, steps, size,
    GATED: tl.constexpr, TABLE: tl.constexpr, PADDED: tl.constexpr, SIZE: tl.constexpr,
    BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Add up what one block of rows contributes to the gradients of norm and gate."""
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    slot = tl.arange(0, SIZE)
    last = tl.load(real).to(tl.int32) if PADDED else copies
    scale_ = load_columns(scale, column, inside)
    shift_ = load_columns(shift, column, inside)
    mean_ = load_columns(mean, column, inside)
    rstd_ = load_columns(rstd, column, inside)
    sum_grad = tl.zeros([C], dtype=partial.dtype.element_ty)
    sum_grad_normed = tl.zeros([C], dtype=partial.dtype.element_ty)
    of_gate = tl.zeros([SIZE, C], dtype=partial.dtype.element_ty)
    step = 0
    while step < steps:
        copy = (part * steps + step) * BLOCK + tl.arange(0, BLOCK)
        there = copy < last
        shown = there[:, None] & inside[None, :]
        place = copy.to(tl.int64)[:, None] * stride + column[None, :]
        value = widened(tl.load(z + place, mask=shown, other=0.0))
        group = tl.load(key + copy, mask=there, other=0).to(tl.int64)
        place = group[:, None] * grad_stride + column[None, :]
        back = tl.load(grad + place, mask=shown, other=0.0)
        y = tl.maximum(value * scale_ + shift_, 0.0)
        if GATED:
            entry = load_index(rows, copy.to(tl.int64), there, TABLE)
            if TABLE:
                one_hot = (entry[None, :] == slot[:, None]).to(value.dtype)
                share = tl.where(shown, back * y, 0.0)
                product = tl.dot(one_hot, share, input_precision="ieee")
                of_gate += product.to(of_gate.dtype)
            entry, at = entry[:, None], column[None, :]
            back *= load_gate(gate, gate_stride, entry, at, shown, TABLE)
        back = tl.where(y > 0, back, 0.0)
        sum_grad += tl.sum(back, axis=0)
        sum_grad_normed += tl.sum(back * ((value - mean_) * rstd_), axis=0)
        step += 1
    base = partial + part * (2 + size) * width
    tl.store(base + column, sum_grad, mask=inside)
    tl.store(base + width + column, sum_grad_normed, mask=inside)
    if GATED and TABLE:
        place = (2 + slot)[:, None] * width + column[None, :]
        shown = (slot < size)[:, None] & inside[None, :]
        tl.store(base + place, of_gate, mask=shown)


@for_all_sizes
def _pool_to_rows(
    grad, grad_stride, z, stride, scale, shift, mean, rstd, gate, gate_stride, rows,
    key, real, sums, total, into, into_stride, copies, width,
    GATED: tl.constexpr, TABLE: tl.constexpr, OF_BATCH: tl.constexpr,
    PADDED: tl.constexpr, SYNCED: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Compute a tile of the gradient of `z`; `sums` has gradients of norm and gate.

    Without `TABLE`, also overwrite a tile of `gate` with its gradient.
    """
    copy = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    last = tl.load(real).to(tl.int32) if PADDED else copies
    there = copy < last
    shown = there[:, None] & inside[None, :]
    place = copy.to(tl.int64)[:, None] * stride + column[None, :]
    value = tl.load(z + place, mask=shown, other=0.0)
    scale_ = load_columns(scale, column, inside)
    shift_ = load_columns(shift, column, inside)
    group = tl.load(key + copy, mask=there, other=0).to(tl.int64)
    place = group[:, None] * grad_stride + column[None, :]
    back = tl.load(grad + place, mask=shown, other=0.0)
    y = value * scale_ + shift_
    if GATED:
        entry = load_index(rows, copy.to(tl.int64), there, TABLE)[:, None]
        share = load_gate(gate, gate_stride, entry, column[None, :], shown, TABLE)
        if not TABLE:
            product = back * y * share * (1 - share)
            of_logit = tl.where(shown & (y > 0), product, 0.0)
            place = entry * gate_stride + column[None, :]
            everywhere = (copy < copies)[:, None] & inside[None, :]
            tl.store(gate + place, of_logit, mask=everywhere)
        back *= share
    back = tl.where(y > 0, back, 0.0)
    if OF_BATCH:
        count = tl.load(total).to(tl.int32) if SYNCED else last
        correction = norm_correction(
            value, mean, rstd, sums, column, inside, width, count
        )
        if PADDED or SYNCED:
            correction = tl.where(count > 1, correction, 0.0)
        back -= correction
    place = copy.to(tl.int64)[:, None] * into_stride + column[None, :]
    everywhere = (copy < copies)[:, None] & inside[None, :]
    tl.store(into + place, tl.where(shown, scale_ * back, 0.0), mask=everywhere)
