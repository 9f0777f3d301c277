"""Batch norm, ReLU, gate and segment sum, and their gradients, in Triton."""

import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.norm import load_columns, norm_correction
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
from gnnak.fast.kernels.records import NormConstants
from gnnak.subgraphs.groups import Groups


def gate_pool(
    z: Tensor, k: NormConstants, gate: Tensor | None, rows: Tensor, groups: Groups
) -> Tensor:
    """Return the sum of `gate[rows] * ReLU(scale z + shift)` over each group."""
    width = z.size(1)
    out = z.new_empty(len(groups), width, dtype=sum_dtype(z))
    _gate_pool[(max(len(groups), 1), cdiv(width, wide_columns(width)))](
        z, z.stride(0), k.scale, k.shift,
        z if gate is None else gate,
        0 if gate is None else gate.stride(0),
        rows, groups.ptr,
        groups.ptr if groups.order is None else groups.order,
        out, len(groups), width,
        gate is not None,
        groups.order is not None,
        wide_columns(width), num_warps=1,
    )  # fmt: skip
    return out


@for_all_sizes
def _gate_pool(
    z, stride, scale, shift, gate, gate_stride, rows, ptr, order, out, size, width,
    GATED: tl.constexpr, ORDERED: tl.constexpr, C: tl.constexpr,
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
            entry = tl.load(rows + copy).to(tl.int64)
            entry_2 = tl.load(rows + copy_2, mask=k + 1 < end, other=0).to(tl.int64)
            value *= tl.load(
                gate + entry * gate_stride + column, mask=inside, other=0.0
            )
            value_2 *= tl.load(
                gate + entry_2 * gate_stride + column, mask=both, other=0.0
            )
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
    rows: Tensor,
    key: Tensor,
    into: Tensor,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the gradients of the norm's weight, the norm's bias, and `gate`.

    The gradient of `z` is written to `into`.
    """
    copies, width = z.shape
    count, steps = parts(copies)
    gated, padded = gate is not None, k.real is not None
    size = 0 if gate is None else gate.size(0)
    partial = z.new_empty(count, 2 + size, width, dtype=sum_dtype(z))
    shared = (
        grad, grad.stride(0), z, z.stride(0), *k[:4],
        z if gate is None else gate,
        0 if gate is None else gate.stride(0),
        rows, key,
        k.real if padded else z,
    )  # fmt: skip
    _pool_sums[(count, cdiv(width, columns(width)))](
        *shared, partial, copies, width, steps, size, gated, padded,
        max(16, next_power_of_2(size)), SUMMED, columns(width),
    )  # fmt: skip
    sums = add_up(partial)
    _pool_to_rows[tiles(copies, BLOCK, width)](
        *shared, sums, into, into.stride(0), copies, width, gated, k.of_batch, padded,
        BLOCK, columns(width),
    )  # fmt: skip
    return sums[1], sums[0], sums[2:] if gated else None


@for_all_sizes
def _pool_sums(
    grad, grad_stride, z, stride, scale, shift, mean, rstd, gate, gate_stride, rows,
    key, real, partial, copies, width, steps, size,
    GATED: tl.constexpr, PADDED: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    """Sum the gradients of norm and gate over one block of rows."""
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    entry = tl.arange(0, SIZE)
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
            of = tl.load(rows + copy, mask=there, other=0).to(tl.int64)
            one_hot = (of[None, :] == entry[:, None]).to(value.dtype)
            share = tl.where(shown, back * y, 0.0)
            product = tl.dot(one_hot, share, input_precision="ieee")
            of_gate += product.to(of_gate.dtype)
            place = of[:, None] * gate_stride + column[None, :]
            back *= tl.load(gate + place, mask=shown, other=0.0)
        back = tl.where(y > 0, back, 0.0)
        sum_grad += tl.sum(back, axis=0)
        sum_grad_normed += tl.sum(back * ((value - mean_) * rstd_), axis=0)
        step += 1
    base = partial + part * (2 + size) * width
    tl.store(base + column, sum_grad, mask=inside)
    tl.store(base + width + column, sum_grad_normed, mask=inside)
    if GATED:
        place = (2 + entry)[:, None] * width + column[None, :]
        shown = (entry < size)[:, None] & inside[None, :]
        tl.store(base + place, of_gate, mask=shown)


@for_all_sizes
def _pool_to_rows(
    grad, grad_stride, z, stride, scale, shift, mean, rstd, gate, gate_stride, rows,
    key, real, sums, into, into_stride, copies, width,
    GATED: tl.constexpr, OF_BATCH: tl.constexpr, PADDED: tl.constexpr,
    BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Compute one tile of the gradient of `z`; `sums` is the total of `_pool_sums`."""
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
    if GATED:
        of = tl.load(rows + copy, mask=there, other=0).to(tl.int64)
        place = of[:, None] * gate_stride + column[None, :]
        back *= tl.load(gate + place, mask=shown, other=0.0)
    back = tl.where(value * scale_ + shift_ > 0, back, 0.0)
    if OF_BATCH:
        correction = norm_correction(
            value, mean, rstd, sums, column, inside, width, last
        )
        if PADDED:
            correction = tl.where(last > 1, correction, 0.0)
        back -= correction
    place = copy.to(tl.int64)[:, None] * into_stride + column[None, :]
    everywhere = (copy < copies)[:, None] & inside[None, :]
    tl.store(into + place, tl.where(shown, scale_ * back, 0.0), mask=everywhere)
