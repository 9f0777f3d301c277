"""The gradient of norm, ReLU, gate and segment sum, in two passes."""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.normed import of_columns, pull_of
from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.sums import add_up
from gnnak.fast.kernels.gpu.tiles import BLOCK, SUMMED, columns, parts, tiles
from gnnak.fast.kernels.records import NormConstants


def gate_pool_backward(
    grad: Tensor,
    z: Tensor,
    k: NormConstants,
    gate: Tensor | None,
    rows: Tensor,
    key: Tensor,
    into: Tensor,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of `gate_pool`: of weight and bias [c] and of the gate [t, c].

    The gradient of z [m, c] goes `into` a tensor of its shape; arguments as of the
    plain kernel.
    """
    copies, width = z.shape
    count, steps = parts(copies)
    gated, padded = gate is not None, k.real is not None
    size = 0 if gate is None else gate.size(0)
    partial = z.new_empty(count, 2 + size, width)
    shared = (
        grad,
        grad.stride(0),
        z,
        z.stride(0),
        *k[:4],
        gate if gated else z,
        gate.stride(0) if gate is not None else 0,
        rows,
        key,
        k.real if padded else z,
    )
    _pool_sums[(count, triton.cdiv(width, columns(width)))](
        *shared,
        partial,
        copies,
        width,
        steps,
        size,
        gated,
        padded,
        max(16, triton.next_power_of_2(size)),
        SUMMED,
        columns(width),
    )
    sums = add_up(partial)
    _pool_to_rows[tiles(copies, BLOCK, width)](
        *shared,
        sums,
        into,
        into.stride(0),
        copies,
        width,
        gated,
        k.of_batch,
        padded,
        BLOCK,
        columns(width),
    )
    return sums[1], sums[0], sums[2:] if gated else None


@for_all_sizes
def _pool_sums(
    grad,
    grad_stride,
    z,
    stride,
    scale,
    shift,
    mean,
    rstd,
    gate,
    gate_stride,
    rows,
    key,
    real,
    partial,
    copies,
    width,
    steps,
    size,
    GATED: tl.constexpr,
    PADDED: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    """Over each part: the sums that the norm's gradient needs, and the gate's."""
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    entry = tl.arange(0, SIZE)
    last = tl.load(real).to(tl.int32) if PADDED else copies
    scale_ = of_columns(scale, column, inside)
    shift_ = of_columns(shift, column, inside)
    mean_ = of_columns(mean, column, inside)
    rstd_ = of_columns(rstd, column, inside)
    plain = tl.zeros([C], dtype=partial.dtype.element_ty)
    normed = tl.zeros([C], dtype=partial.dtype.element_ty)
    of_gate = tl.zeros([SIZE, C], dtype=partial.dtype.element_ty)
    step = 0
    while step < steps:
        copy = (part * steps + step) * BLOCK + tl.arange(0, BLOCK)
        there = copy < last
        shown = there[:, None] & inside[None, :]
        place = copy.to(tl.int64)[:, None] * stride + column[None, :]
        value = tl.load(z + place, mask=shown, other=0.0)
        group = tl.load(key + copy, mask=there, other=0).to(tl.int64)
        place = group[:, None] * grad_stride + column[None, :]
        back = tl.load(grad + place, mask=shown, other=0.0)
        y = tl.maximum(value * scale_ + shift_, 0.0)
        if GATED:
            of = tl.load(rows + copy, mask=there, other=0).to(tl.int64)
            named = (of[None, :] == entry[:, None]).to(value.dtype)
            share = tl.where(shown, back * y, 0.0)
            of_gate += tl.dot(named, share, input_precision="ieee").to(of_gate.dtype)
            place = of[:, None] * gate_stride + column[None, :]
            back *= tl.load(gate + place, mask=shown, other=0.0)
        back = tl.where(y > 0, back, 0.0)
        plain += tl.sum(back, axis=0)
        normed += tl.sum(back * ((value - mean_) * rstd_), axis=0)
        step += 1
    base = partial + part * (2 + size) * width
    tl.store(base + column, plain, mask=inside)
    tl.store(base + width + column, normed, mask=inside)
    if GATED:
        place = (2 + entry)[:, None] * width + column[None, :]
        shown = (entry < size)[:, None] & inside[None, :]
        tl.store(base + place, of_gate, mask=shown)


@for_all_sizes
def _pool_to_rows(
    grad,
    grad_stride,
    z,
    stride,
    scale,
    shift,
    mean,
    rstd,
    gate,
    gate_stride,
    rows,
    key,
    real,
    sums,
    into,
    into_stride,
    copies,
    width,
    GATED: tl.constexpr,
    OF_BATCH: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    copy = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    last = tl.load(real).to(tl.int32) if PADDED else copies
    there = copy < last
    shown = there[:, None] & inside[None, :]
    place = copy.to(tl.int64)[:, None] * stride + column[None, :]
    value = tl.load(z + place, mask=shown, other=0.0)
    scale_ = of_columns(scale, column, inside)
    shift_ = of_columns(shift, column, inside)
    group = tl.load(key + copy, mask=there, other=0).to(tl.int64)
    place = group[:, None] * grad_stride + column[None, :]
    back = tl.load(grad + place, mask=shown, other=0.0)
    if GATED:
        of = tl.load(rows + copy, mask=there, other=0).to(tl.int64)
        place = of[:, None] * gate_stride + column[None, :]
        back *= tl.load(gate + place, mask=shown, other=0.0)
    back = tl.where(value * scale_ + shift_ > 0, back, 0.0)
    if OF_BATCH:
        pull = pull_of(value, mean, rstd, sums, column, inside, width, last)
        if PADDED:
            pull = tl.where(last > 1, pull, 0.0)
        back -= pull
    place = copy.to(tl.int64)[:, None] * into_stride + column[None, :]
    everywhere = (copy < copies)[:, None] & inside[None, :]
    tl.store(into + place, tl.where(shown, scale_ * back, 0.0), mask=everywhere)
