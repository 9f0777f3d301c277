"""Column statistics of a batch norm, in two Triton kernels.

`_moments` computes the mean and the sum of squared deviations (m2) of every column for
each block of rows. `_combine` merges the statistics of all blocks and computes the
norm's scale and shift. Both kernels merge statistics with Chan's parallel algorithm.
Unlike E[x^2] - E[x]^2, it stays precise if the mean is much larger than the deviation.
"""

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels import plain
from gnnak.fast.kernels.gpu.tiles import (
    SUMMED,
    cdiv,
    columns,
    for_all_sizes,
    parts,
    sum_dtype,
    widened,
)
from gnnak.fast.kernels.records import Moments, NormConstants

PARTS, NARROW, WARPS = 64, 4, 8
"""Launch constants of `_combine`: blocks of rows merged at a time, columns per program,
and warps per program.

The work is small and limited by memory latency, so it is spread over many programs."""


def norm_constants(
    h: Tensor,
    norm: Any,
    real: Tensor | None,
    moments: Moments | None = None,
) -> NormConstants:
    """Compute the scale and shift with which `norm` normalises `h`.

    In training mode, scale and shift come from the rows that are not padding, and the
    running statistics of `norm` are updated in place. In evaluation mode, and for a
    batch with a single row, scale and shift come from the running statistics. The host
    does not wait for the GPU.

    Args:
        h: Rows to normalise, [m, c].
        norm: The batch norm, in training or evaluation mode: a module, or an object
            with the same tensors and options.
        real: Number of rows that are not padding, a scalar; None = all.
        moments: Column statistics of `h`, if the kernel that computed `h` returned
            them; `h` is then not read. None = compute them with `moments_of`.
    """
    if not norm.training:
        return plain.norm_constants(h, norm, real)
    rows, width = h.shape
    partial, rows_a_part = moments or moments_of(h, real)
    out = h.new_empty(4, width, dtype=sum_dtype(h))
    padded, tracked = real is not None, norm.num_batches_tracked
    _combine[(cdiv(width, NARROW),)](
        partial,
        *partial.stride()[:2],
        real if padded else h,
        norm.weight,
        norm.bias,
        norm.running_mean,
        norm.running_var,
        out if tracked is None else tracked,
        out,
        rows,
        width,
        partial.size(1),
        rows_a_part,
        norm.eps,
        norm.momentum,
        padded,
        tracked is not None,
        PARTS,
        NARROW,
        num_warps=WARPS,
    )
    scale, shift, mean, rstd = out
    return NormConstants(scale, shift, mean, rstd, True, real)


def moments_of(h: Tensor, real: Tensor | None) -> Moments:
    """Compute column statistics of each block of consecutive rows.

    The statistics are the mean and the sum of squared deviations of every column.

    Args:
        h: Rows to normalise, [m, c].
        real: Number of rows that are not padding, a scalar; None = all.
    """
    rows, width = h.shape
    count, steps = parts(rows)
    partial = h.new_empty(2, count, width, dtype=sum_dtype(h))
    _moments[(count, cdiv(width, columns(width)))](
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
    """Triton kernel of `moments_of`: compute column statistics of a block of rows.

    `partial` receives the mean and the sum of squared deviations of every column.
    Arguments as in `moments_of`.
    """
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    last = tl.load(real).to(tl.int32) if PADDED else rows
    mean = tl.zeros([C], dtype=partial.dtype.element_ty)
    m2 = tl.zeros([C], dtype=partial.dtype.element_ty)
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
        mean, m2 = add_rows(mean, m2, seen, widened(value), shown, new)
        seen += new
        step += 1
    tl.store(partial + part * width + column, mean, mask=inside)
    tl.store(partial + (count + part) * width + column, m2, mask=inside)


@triton.jit
def add_rows(mean, m2, seen, value, shown, new):
    """Update column statistics of the rows seen so far with the rows of a further tile.

    This is Chan's algorithm.

    Args:
        mean: Mean of every column over the rows seen so far.
        m2: Sum of squared deviations of every column over the rows seen so far.
        seen: Number of rows seen so far.
        value: A tile of further rows.
        shown: Mask of the first `new` rows of the tile; other rows are ignored.
        new: Number of rows of the tile to add.

    Returns:
        Mean and sum of squared deviations of all `seen + new` rows.
    """
    both = tl.maximum(seen + new, 1)
    of_new = tl.sum(tl.where(shown, value, 0.0), axis=0) / tl.maximum(new, 1)
    off = tl.where(shown, value - of_new[None, :], 0.0)
    delta = tl.where(new > 0, of_new - mean, 0.0)
    more = tl.sum(off * off, axis=0) + delta * delta * seen * new / both
    return mean + delta * new / both, m2 + more


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
    TRACKED: tl.constexpr,
    PARTS: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `norm_constants`: merge the statistics of all blocks of rows.

    It writes the scale, shift, mean and reciprocal standard deviation of every column
    to `out`, and updates the running statistics of the batch norm.
    """
    column = tl.program_id(0) * C + tl.arange(0, C)
    inside = column < width
    last = tl.load(real).to(tl.int32) if PADDED else rows
    total = tl.maximum(last, 1)
    # Load these values before the loop: the latencies overlap with the loop's loads.
    old_mean = tl.load(running_mean + column, mask=inside, other=0.0)
    old_var = tl.load(running_var + column, mask=inside, other=1.0)
    weight_ = tl.load(weight + column, mask=inside, other=0.0)
    bias_ = tl.load(bias + column, mask=inside, other=0.0)
    seen = tl.zeros([PARTS, 1], dtype=out.dtype.element_ty)
    means = tl.zeros([PARTS, C], dtype=out.dtype.element_ty)
    m2s = tl.zeros([PARTS, C], dtype=out.dtype.element_ty)
    # Row p of the tile merges the blocks p, p + PARTS, p + 2 PARTS, and so on.
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
        m2s += tl.load(partial + half + place, mask=shown, other=0.0)
        m2s += delta * delta * seen * share
        seen += new
        first += PARTS
    mean = tl.sum(means * seen, axis=0) / total
    off = means - mean[None, :]
    m2 = tl.sum(m2s + off * off * seen, axis=0)
    several = last > 1
    unbiased = m2 / tl.maximum(last - 1, 1)
    new_mean = old_mean + tl.where(several, MOMENTUM * (mean - old_mean), 0.0)
    new_var = old_var + tl.where(several, MOMENTUM * (unbiased - old_var), 0.0)
    tl.store(running_mean + column, new_mean, mask=inside)
    tl.store(running_var + column, new_var, mask=inside)
    if TRACKED and tl.program_id(0) == 0:
        tl.store(tracked, tl.load(tracked) + several.to(tl.int64))
    mean = tl.where(several, mean, old_mean)
    rstd = 1 / tl.sqrt(tl.where(several, m2 / total, old_var) + EPS)
    scale = weight_ * rstd
    shift = bias_ - mean * scale
    tl.store(out + column, scale, mask=inside)
    tl.store(out + width + column, shift, mask=inside)
    tl.store(out + 2 * width + column, mean, mask=inside)
    tl.store(out + 3 * width + column, rstd, mask=inside)
