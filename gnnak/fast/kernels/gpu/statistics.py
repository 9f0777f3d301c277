"""Statistics of columns, and what a norm makes of them, in two launches."""

import triton
import triton.language as tl
from torch import Tensor, nn

from gnnak.fast.kernels import plain
from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.tiles import SUMMED, columns, parts
from gnnak.fast.kernels.records import Moments, NormConstants

PARTS, NARROW, WARPS = 64, 4, 8
"""Partial results that are put together at a time, columns of such a tile, and warps:
many small programs, as there is little to do and much to wait for."""


def norm_constants(
    h: Tensor,
    norm: nn.BatchNorm1d,
    real: Tensor | None,
    moments: Moments | None = None,
) -> NormConstants:
    """What `norm` does to these rows; in training it also remembers their statistics.

    Arguments as of the plain kernel; moments that are not given are computed.
    """
    if not norm.training:
        return plain.norm_constants(h, norm, real)
    rows, width = h.shape
    partial, rows_a_part = moments or moments_of(h, real)
    out = h.new_empty(4, width)
    padded = real is not None
    _combine[(triton.cdiv(width, NARROW),)](
        partial,
        *partial.stride()[:2],
        real if padded else h,
        norm.weight,
        norm.bias,
        norm.running_mean,
        norm.running_var,
        norm.num_batches_tracked,
        out,
        rows,
        width,
        partial.size(1),
        rows_a_part,
        norm.eps,
        norm.momentum,
        padded,
        PARTS,
        NARROW,
        num_warps=WARPS,
    )
    scale, shift, mean, rstd = out
    return NormConstants(scale, shift, mean, rstd, True, real)


def moments_of(h: Tensor, real: Tensor | None) -> Moments:
    """Statistics of parts of the rows, [m, c], of which `real` are no padding."""
    rows, width = h.shape
    count, steps = parts(rows)
    partial = h.new_empty(2, count, width)
    _moments[(count, triton.cdiv(width, columns(width)))](
        h,
        h.stride(0),
        h if real is None else real,
        partial,
        rows,
        width,
        count,
        steps,
        real is not None,
        SUMMED,
        columns(width),
    )
    return Moments(partial, steps * SUMMED)


@for_all_sizes
def _moments(
    h,
    stride,
    real,
    partial,
    rows,
    width,
    count,
    steps,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    """Mean, and sum of squares around it, of each part's rows."""
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    last = tl.load(real).to(tl.int32) if PADDED else rows
    mean = tl.zeros([C], dtype=partial.dtype.element_ty)
    around = tl.zeros([C], dtype=partial.dtype.element_ty)
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
        new = tl.maximum(tl.minimum(last - first, BLOCK), 0)
        mean, around = with_rows(mean, around, seen, value, shown, new)
        seen += new
        step += 1
    tl.store(partial + part * width + column, mean, mask=inside)
    tl.store(partial + (count + part) * width + column, around, mask=inside)


@triton.jit
def with_rows(mean, around, seen, value, shown, new):
    """Mean, and sum of squares around it, of more rows than those seen (Chan's update).

    Of the tile `value` the `new` first rows count, which are `shown`.
    """
    both = tl.maximum(seen + new, 1)
    of_new = tl.sum(tl.where(shown, value, 0.0), axis=0) / tl.maximum(new, 1)
    off = tl.where(shown, value - of_new[None, :], 0.0)
    delta = tl.where(new > 0, of_new - mean, 0.0)
    more = tl.sum(off * off, axis=0) + delta * delta * seen * new / both
    return mean + delta * new / both, around + more


@for_all_sizes
def _combine(
    partial,
    half,
    stride,
    real,
    weight,
    bias,
    running_mean,
    running_var,
    tracked,
    out,
    rows,
    width,
    count,
    rows_a_part,
    EPS: tl.constexpr,
    MOMENTUM: tl.constexpr,
    PADDED: tl.constexpr,
    PARTS: tl.constexpr,
    C: tl.constexpr,
):
    column = tl.program_id(0) * C + tl.arange(0, C)
    inside = column < width
    last = tl.load(real).to(tl.int32) if PADDED else rows
    total = tl.maximum(last, 1)
    # Asked for first: what is summed up comes from as far away.
    old_mean = tl.load(running_mean + column, mask=inside, other=0.0)
    old_var = tl.load(running_var + column, mask=inside, other=1.0)
    weight_ = tl.load(weight + column, mask=inside, other=0.0)
    bias_ = tl.load(bias + column, mask=inside, other=0.0)
    seen = tl.zeros([PARTS, 1], dtype=out.dtype.element_ty)
    means = tl.zeros([PARTS, C], dtype=out.dtype.element_ty)
    arounds = tl.zeros([PARTS, C], dtype=out.dtype.element_ty)
    first = 0
    while first < count:
        part = first + tl.arange(0, PARTS)
        shown = (part < count)[:, None] & inside[None, :]
        place = part[:, None] * stride + column[None, :]
        new = tl.minimum(tl.maximum(last - part * rows_a_part, 0), rows_a_part)
        new = new.to(seen.dtype)[:, None]
        delta = tl.load(partial + place, mask=shown, other=0.0) - means
        share = new / tl.maximum(seen + new, 1.0)
        means += delta * share
        arounds += tl.load(partial + half + place, mask=shown, other=0.0)
        arounds += delta * delta * seen * share
        seen += new
        first += PARTS
    mean = tl.sum(means * seen, axis=0) / total
    off = means - mean[None, :]
    around = tl.sum(arounds + off * off * seen, axis=0)
    several = last > 1
    unbiased = around / tl.maximum(last - 1, 1)
    new_mean = old_mean + tl.where(several, MOMENTUM * (mean - old_mean), 0.0)
    new_var = old_var + tl.where(several, MOMENTUM * (unbiased - old_var), 0.0)
    tl.store(running_mean + column, new_mean, mask=inside)
    tl.store(running_var + column, new_var, mask=inside)
    if tl.program_id(0) == 0:
        tl.store(tracked, tl.load(tracked) + several.to(tl.int64))
    mean = tl.where(several, mean, old_mean)
    rstd = 1 / tl.sqrt(tl.where(several, around / total, old_var) + EPS)
    scale = weight_ * rstd
    shift = bias_ - mean * scale
    tl.store(out + column, scale, mask=inside)
    tl.store(out + width + column, shift, mask=inside)
    tl.store(out + 2 * width + column, mean, mask=inside)
    tl.store(out + 3 * width + column, rstd, mask=inside)
