"""Batch norm, ReLU and residual sum, their gradients, and statistics, in Triton.

The statistics of blocks of rows are merged with Chan's parallel algorithm. Unlike
E[x^2] - E[x]^2, it stays precise if the mean is much larger than the deviation.
"""

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from gnnak.distributed import gather_processes, sum_over_processes
from gnnak.fast.kernels import plain
from gnnak.fast.kernels.gpu.tiles import (
    BLOCK,
    SUMMED,
    add_up,
    cdiv,
    columns,
    for_all_sizes,
    parts,
    sum_dtype,
    tiles,
    widened,
)
from gnnak.fast.kernels.records import BIAS_COLUMN, Moments, NormConstants

PARTS, NARROW, WARPS = 64, 4, 8
"""For `_combine`: blocks merged at a time, columns per program, warps per program."""


def norm_constants(
    h: Tensor, norm: Any, real: Tensor | None, moments: Moments | None = None
) -> NormConstants:
    if not norm.training:
        return plain.norm_constants(h, norm, real)
    width = h.size(1)
    found = moments or moments_of(h, real)
    out = h.new_empty(4, width, dtype=sum_dtype(h))
    if not norm.synced:
        _merge(found, norm, real, out, h.size(0))
        scale, shift, mean, rstd = out
        return NormConstants(scale, shift, mean, rstd, True, real)
    _merge(found, norm, real, out, h.size(0), STATISTICS)
    # [processes, 3, c]: mean, squared deviations and number of rows of each process.
    gathered = gather_processes(out[:3])
    _merge(Moments(gathered.transpose(0, 1), 0), norm, real, out, 0, GATHERED)
    (scale, shift, mean, rstd), total = out, gathered[:, 2].sum(dim=0)
    return NormConstants(scale, shift, mean, rstd, True, real, total)


CONSTANTS, STATISTICS, GATHERED = 0, 1, 2
"""What `_combine` does: compute constants from the rows of this process, compute only
statistics of these rows, or compute constants from the statistics of all processes."""


def _merge(
    moments: Moments,
    norm: Any,
    real: Tensor | None,
    out: Tensor,
    rows: int,
    mode: int = CONSTANTS,
) -> None:
    partial, width, tracked = moments.partial, out.size(1), norm.num_batches_tracked
    _combine[(cdiv(width, NARROW),)](
        partial, *partial.stride()[:2],
        out if real is None else real,
        norm.weight, norm.bias, norm.running_mean, norm.running_var,
        out if tracked is None else tracked,
        out, rows, width, partial.size(1), moments.rows, norm.eps, norm.momentum,
        real is not None,
        tracked is not None,
        mode, PARTS, NARROW, num_warps=WARPS,
    )  # fmt: skip


def moments_of(h: Tensor, real: Tensor | None) -> Moments:
    """Compute the column statistics of `h`, for each block of rows."""
    rows, width = h.shape
    count, steps = parts(rows)
    partial = h.new_empty(2, count, width, dtype=sum_dtype(h))
    _moments[(count, cdiv(width, columns(width)))](
        h, h.stride(0),
        h if real is None else real,
        partial, rows, width, count, steps,
        real is not None,
        SUMMED, columns(width),
    )  # fmt: skip
    return Moments(partial, steps * SUMMED)


@for_all_sizes
def _moments(
    h, stride, real, partial, rows, width, count, steps,
    PADDED: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    last = tl.load(real).to(tl.int32) if PADDED else rows
    of_first = tl.zeros([C], dtype=partial.dtype.element_ty)
    sums = tl.zeros([BLOCK, C], dtype=partial.dtype.element_ty)
    squares = tl.zeros([BLOCK, C], dtype=partial.dtype.element_ty)
    seen = 0
    step = 0
    while step < steps:
        first = (part * steps + step) * BLOCK
        row = first + tl.arange(0, BLOCK)
        shown = (row < last)[:, None] & inside[None, :]
        value = tl.load(
            h + row.to(tl.int64)[:, None] * stride + column[None, :],
            mask=shown,
            other=0.0,
        )
        value = widened(value)
        new = tl.maximum(tl.minimum(last - first, BLOCK), 0)
        if step == 0:
            of_first = tl.sum(value, axis=0) / tl.maximum(new, 1)
        # Deviations from the mean of the first tile: their squares are small, so that
        # the difference below loses no digits.
        off = tl.where(shown, value - of_first[None, :], 0.0)
        sums += off
        squares += off * off
        seen += new
        step += 1
    total = tl.sum(sums, axis=0)
    off = total / tl.maximum(seen, 1)
    tl.store(partial + part * width + column, of_first + off, mask=inside)
    m2 = tl.sum(squares, axis=0) - total * off
    tl.store(partial + (count + part) * width + column, m2, mask=inside)


@triton.jit
def add_rows(mean, m2, seen, value, shown, new):
    """Add `new` rows to `mean` and `m2` (sum of squared deviations) of `seen` rows."""
    both = tl.maximum(seen + new, 1)
    of_new = tl.sum(tl.where(shown, value, 0.0), axis=0) / tl.maximum(new, 1)
    off = tl.where(shown, value - of_new[None, :], 0.0)
    delta = tl.where(new > 0, of_new - mean, 0.0)
    more = tl.sum(off * off, axis=0) + delta * delta * seen * new / both
    return mean + delta * new / both, m2 + more


@for_all_sizes
def _combine(
    partial, half, stride, real, weight, bias, running_mean, running_var, tracked, out,
    rows, width, count, rows_a_part,
    EPS: tl.constexpr, MOMENTUM: tl.constexpr, PADDED: tl.constexpr,
    TRACKED: tl.constexpr, MODE: tl.constexpr, PARTS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Write scale, shift, mean and rstd to `out`, [4, c]; update running statistics.

    See `CONSTANTS` for the meaning of `MODE`.
    """
    column = tl.program_id(0) * C + tl.arange(0, C)
    inside = column < width
    last = tl.load(real).to(tl.int32) if PADDED else rows
    # Load these values before the loop: the latencies overlap with the loop's loads.
    old_mean = tl.load(running_mean + column, mask=inside, other=0.0)
    old_var = tl.load(running_var + column, mask=inside, other=1.0)
    weight_ = tl.load(weight + column, mask=inside, other=0.0)
    bias_ = tl.load(bias + column, mask=inside, other=0.0)
    seen = tl.zeros([PARTS, C], dtype=out.dtype.element_ty)
    means = tl.zeros([PARTS, C], dtype=out.dtype.element_ty)
    m2s = tl.zeros([PARTS, C], dtype=out.dtype.element_ty)
    # Row p of the tile merges the blocks p, p + PARTS, p + 2 PARTS, and so on.
    first = 0
    while first < count:
        part = first + tl.arange(0, PARTS)
        shown = (part < count)[:, None] & inside[None, :]
        place = part[:, None] * stride + column[None, :]
        if MODE == 2:
            new = tl.load(partial + 2 * half + place, mask=shown, other=0.0)
        else:
            new = tl.minimum(tl.maximum(last - part * rows_a_part, 0), rows_a_part)
            new = new.to(seen.dtype)[:, None]
        delta = tl.load(partial + place, mask=shown, other=0.0) - means
        share = new / tl.maximum(seen + new, 1.0)
        means += delta * share
        m2s += tl.load(partial + half + place, mask=shown, other=0.0)
        m2s += delta * delta * seen * share
        seen += new
        first += PARTS
    real_count = tl.sum(seen, axis=0)
    total = tl.maximum(real_count, 1.0)
    mean = tl.sum(means * seen, axis=0) / total
    off = means - mean[None, :]
    m2 = tl.sum(m2s + off * off * seen, axis=0)
    if MODE == 1:
        tl.store(out + column, mean, mask=inside)
        tl.store(out + width + column, m2, mask=inside)
        tl.store(out + 2 * width + column, real_count, mask=inside)
    else:
        several = real_count > 1
        unbiased = m2 / tl.maximum(real_count - 1, 1.0)
        new_mean = old_mean + tl.where(several, MOMENTUM * (mean - old_mean), 0.0)
        new_var = old_var + tl.where(several, MOMENTUM * (unbiased - old_var), 0.0)
        tl.store(running_mean + column, new_mean, mask=inside)
        tl.store(running_var + column, new_var, mask=inside)
        if TRACKED and tl.program_id(0) == 0:
            more = tl.max(several.to(tl.int64), axis=0)
            tl.store(tracked, tl.load(tracked) + more)
        mean = tl.where(several, mean, old_mean)
        rstd = 1 / tl.sqrt(tl.where(several, m2 / total, old_var) + EPS)
        scale = weight_ * rstd
        shift = bias_ - mean * scale
        tl.store(out + column, scale, mask=inside)
        tl.store(out + width + column, shift, mask=inside)
        tl.store(out + 2 * width + column, mean, mask=inside)
        tl.store(out + 3 * width + column, rstd, mask=inside)


def norm_act_at(
    h: Tensor, k: NormConstants, residual: Tensor | None, index: Tensor, ones: bool
) -> Tensor:
    rows, width = h.shape
    masked = k.of_batch and k.real is not None
    appended = len(BIAS_COLUMN) if ones else 0
    like = h if residual is None else residual
    out = like.new_empty(index.numel(), width + appended)
    _normed_at[tiles(index.numel(), BLOCK, width)](
        h, h.stride(0), k.scale, k.shift,
        h if residual is None else residual.contiguous(),
        k.real if masked else h,
        index, out, index.numel(), rows, width,
        residual is not None,
        masked, appended, BLOCK, columns(width),
    )  # fmt: skip
    return out


@triton.jit
def load_columns(values, column, inside):
    """Load one value for each column of a tile, as a tensor with one row, [1, C]."""
    return tl.load(values + column, mask=inside, other=0.0)[None, :]


@triton.jit
def norm_correction(value, mean, rstd, sums, column, inside, width, count):
    """Return the part of a norm's gradient that flows through its statistics."""
    mean_ = load_columns(mean, column, inside)
    rstd_ = load_columns(rstd, column, inside)
    sum_grad = load_columns(sums, column, inside)
    sum_grad_normed = load_columns(sums + width, column, inside)
    return (sum_grad + (value - mean_) * rstd_ * sum_grad_normed) / tl.maximum(count, 1)


@triton.jit
def normed_tile(
    h, stride, scale, shift, residual, row, column, last, rows, width,
    NORMED: tl.constexpr, ADDS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Load a tile of `h` and return `residual + ReLU(scale h + shift)` for it.

    `NORMED`: apply norm and ReLU; `ADDS`: add residual; `MASKED`: zero padding rows.
    """
    inside = column < width
    shown = (row < rows)[:, None] & inside[None, :]
    from_row = row.to(tl.int64)[:, None]
    value = tl.load(h + from_row * stride + column[None, :], mask=shown, other=0.0)
    if NORMED:
        value = value * load_columns(scale, column, inside)
        value += load_columns(shift, column, inside)
        value = tl.maximum(value, 0.0)
        is_real = row < last if MASKED else row < rows
        value = tl.where(is_real[:, None], value, 0.0)
    if ADDS:
        place = from_row * width + column[None, :]
        value += tl.load(residual + place, mask=shown, other=0.0)
    return value


@for_all_sizes
def _normed_at(
    h, stride, scale, shift, residual, real, index, out, size, rows, width,
    ADDS: tl.constexpr, MASKED: tl.constexpr, APPENDED: tl.constexpr,
    BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * C + tl.arange(0, C)
    last = tl.load(real).to(tl.int32) if MASKED else rows
    row = tl.load(index + at, mask=at < size, other=rows)
    value = normed_tile(
        h, stride, scale, shift, residual, row, column, last, rows, width, True, ADDS,
        MASKED,
    )  # fmt: skip
    there, from_row = (
        (at < size)[:, None],
        at.to(tl.int64)[:, None] * (width + APPENDED),
    )
    inside = (column < width)[None, :]
    tl.store(out + from_row + column[None, :], value, mask=there & inside)
    if APPENDED and tl.program_id(1) == 0:
        more = tl.arange(0, APPENDED)[None, :]
        first = tl.where(more == 0, 1.0, 0.0).to(out.dtype.element_ty)
        tl.store(out + from_row + width + more, first, mask=there & (more < APPENDED))


def norm_act(
    h: Tensor, k: NormConstants, relu: bool, residual: Tensor | None
) -> Tensor:
    rows, width = h.shape
    out = (h if residual is None else residual).new_empty(rows, width)
    adds, padded = residual is not None, k.of_batch and k.real is not None
    _norm_act[tiles(rows, BLOCK, width)](
        h, h.stride(0), k.scale, k.shift,
        h if residual is None else residual.contiguous(),
        k.real if padded else h,
        out, rows, width, relu, adds, padded, BLOCK, columns(width),
    )  # fmt: skip
    return out


@for_all_sizes
def _norm_act(
    h, stride, scale, shift, residual, real, out, rows, width,
    RELU: tl.constexpr, ADDS: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    shown = (row < rows)[:, None] & inside[None, :]
    from_row = row.to(tl.int64)[:, None]
    value = widened(tl.load(h + from_row * stride + column[None, :], shown, 0.0))
    value = value * load_columns(scale, column, inside)
    value += load_columns(shift, column, inside)
    if RELU:
        value = tl.maximum(value, 0.0)
    if PADDED:
        value = tl.where((row < tl.load(real).to(tl.int32))[:, None], value, 0.0)
    place = from_row * width + column[None, :]
    if ADDS:
        value += tl.load(residual + place, mask=shown, other=0.0)
    tl.store(out + place, value, mask=shown)


def norm_act_backward(
    grad: Tensor, h: Tensor, k: NormConstants, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    sums, into = norm_grad_sums(grad, h, k, relu), h.new_empty(h.shape)
    norm_grad_rows(grad, h, k, sums, relu, into)
    return into, sums[1], sums[0]


def sums_of_all(sums: Tensor, k: NormConstants) -> Tensor:
    """Return the sums of gradients over the rows of all processes that `k` is of."""
    return sums if k.total is None else sum_over_processes(sums[:2].clone())


def norm_grad_sums(grad: Tensor, h: Tensor, k: NormConstants, relu: bool) -> Tensor:
    """Return the gradients of the norm's bias (row 0) and weight (row 1), [2, c]."""
    rows, width = h.shape
    count, steps = parts(rows)
    partial = h.new_empty(count, 2, width, dtype=sum_dtype(h))
    _norm_sums[(count, cdiv(width, columns(width)))](
        grad, h, h.stride(0), *k[:4], partial, rows, width, steps, relu, SUMMED,
        columns(width),
    )  # fmt: skip
    return add_up(partial)


def norm_grad_rows(
    grad: Tensor,
    h: Tensor,
    k: NormConstants,
    sums: Tensor,
    relu: bool,
    into: Tensor,
    s: Tensor | None = None,
) -> None:
    """Write the gradient of `h`, [m, c], to `into`, and the ReLU's output to `s`."""
    rows, width = h.shape
    _norm_to_rows[tiles(rows, BLOCK, width)](
        grad, h, h.stride(0), *k[:4], sums_of_all(sums, k),
        h if k.real is None else k.real,
        h if k.total is None else k.total,
        into, into.stride(0),
        h if s is None else s,
        rows, width, relu, k.of_batch,
        k.real is not None,
        k.total is not None,
        s is not None,
        BLOCK, columns(width),
    )  # fmt: skip


@for_all_sizes
def _norm_sums(
    grad, h, stride, scale, shift, mean, rstd, partial, rows, width, steps,
    RELU: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Add up what one block of rows contributes to the gradients of weight and bias."""
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    scale_ = load_columns(scale, column, inside)
    shift_ = load_columns(shift, column, inside)
    mean_ = load_columns(mean, column, inside)
    rstd_ = load_columns(rstd, column, inside)
    sum_grad = tl.zeros([BLOCK, C], dtype=partial.dtype.element_ty)
    sum_grad_normed = tl.zeros([BLOCK, C], dtype=partial.dtype.element_ty)
    step = 0
    while step < steps:
        row = (part * steps + step) * BLOCK + tl.arange(0, BLOCK)
        shown = (row < rows)[:, None] & inside[None, :]
        from_row = row.to(tl.int64)[:, None]
        value = widened(tl.load(h + from_row * stride + column[None, :], shown, 0.0))
        back = widened(tl.load(grad + from_row * width + column[None, :], shown, 0.0))
        if RELU:
            back = tl.where(value * scale_ + shift_ > 0, back, 0.0)
        sum_grad += back
        sum_grad_normed += back * ((value - mean_) * rstd_)
        step += 1
    place = partial + 2 * part * width + column
    tl.store(place, tl.sum(sum_grad, axis=0), mask=inside)
    tl.store(place + width, tl.sum(sum_grad_normed, axis=0), mask=inside)


@for_all_sizes
def _norm_to_rows(
    grad, h, stride, scale, shift, mean, rstd, sums, real, total, into, into_stride, s,
    rows, width,
    RELU: tl.constexpr, OF_BATCH: tl.constexpr, PADDED: tl.constexpr,
    SYNCED: tl.constexpr, FORWARD: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    shown = (row < rows)[:, None] & inside[None, :]
    last = tl.load(real).to(tl.int32) if PADDED else rows
    from_row = row.to(tl.int64)[:, None]
    scale_ = load_columns(scale, column, inside)
    shift_ = load_columns(shift, column, inside)
    value = widened(tl.load(h + from_row * stride + column[None, :], shown, 0.0))
    place = from_row * width + column[None, :]
    back = widened(tl.load(grad + place, mask=shown, other=0.0))
    if RELU:
        y = value * scale_ + shift_
        back = tl.where(y > 0, back, 0.0)
        if FORWARD:
            y = tl.maximum(y, 0.0)
            if PADDED and OF_BATCH:
                y = tl.where((row < last)[:, None], y, 0.0)
            tl.store(s + place, y, mask=shown)
    if OF_BATCH:
        count = tl.load(total).to(tl.int32) if SYNCED else last
        correction = norm_correction(
            value, mean, rstd, sums, column, inside, width, count
        )
        if PADDED or SYNCED:
            correction = tl.where((row < last)[:, None] & (count > 1), correction, 0.0)
        back -= correction
    place = from_row * into_stride + column[None, :]
    tl.store(into + place, scale_ * back, mask=shown)
