"""Rows that are normed where they are read: a tile of them, and some of them."""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.tiles import BLOCK, columns, tiles
from gnnak.fast.kernels.records import BIAS_COLUMN, NormConstants


def norm_act_at(
    h: Tensor, k: NormConstants, residual: Tensor | None, index: Tensor, ones: bool
) -> Tensor:
    """Some rows of `norm_act(h, k, True, residual)`, [s, c], or with `BIAS_COLUMN` behind."""
    rows, width = h.shape
    masked = k.of_batch and k.real is not None
    behind = len(BIAS_COLUMN) if ones else 0
    out = h.new_empty(index.numel(), width + behind)
    _normed_at[tiles(index.numel(), BLOCK, width)](
        h,
        h.stride(0),
        k.scale,
        k.shift,
        h if residual is None else residual.contiguous(),
        k.real if masked else h,
        index,
        out,
        index.numel(),
        rows,
        width,
        residual is not None,
        masked,
        behind,
        BLOCK,
        columns(width),
    )
    return out


@triton.jit
def of_columns(values, column, inside):
    """A number for each column of a tile, [1, C]."""
    return tl.load(values + column, mask=inside, other=0.0)[None, :]


@triton.jit
def pull_of(value, mean, rstd, sums, column, inside, width, last):
    """What a norm takes off the gradient of its rows, since they make its statistics.

    Args:
        value: A tile of the rows.
        mean: Of all rows.
        rstd: One by their deviation.
        sums: Of the gradient, and of it times the normed rows.
        column: The columns of the tile.
        inside: Which of them there are.
        width: How many there are in all.
        last: How many rows there are.
    """
    mean_ = of_columns(mean, column, inside)
    rstd_ = of_columns(rstd, column, inside)
    plain = of_columns(sums, column, inside)
    normed = of_columns(sums + width, column, inside)
    return (plain + (value - mean_) * rstd_ * normed) / tl.maximum(last, 1)


@triton.jit
def normed_tile(
    h,
    stride,
    scale,
    shift,
    residual,
    row,
    column,
    last,
    rows,
    width,
    NORMED: tl.constexpr,
    ADDS: tl.constexpr,
    MASKED: tl.constexpr,
):
    """A tile of `residual + ReLU(scale h + shift)`, zero outside of the tensor."""
    inside = column < width
    shown = (row < rows)[:, None] & inside[None, :]
    from_row = row.to(tl.int64)[:, None]
    value = tl.load(h + from_row * stride + column[None, :], mask=shown, other=0.0)
    if NORMED:
        value = value * of_columns(scale, column, inside)
        value += of_columns(shift, column, inside)
        value = tl.maximum(value, 0.0)
        kept = row < last if MASKED else row < rows
        value = tl.where(kept[:, None], value, 0.0)
    if ADDS:
        place = from_row * width + column[None, :]
        value += tl.load(residual + place, mask=shown, other=0.0)
    return value


@for_all_sizes
def _normed_at(
    h,
    stride,
    scale,
    shift,
    residual,
    real,
    index,
    out,
    size,
    rows,
    width,
    ADDS: tl.constexpr,
    MASKED: tl.constexpr,
    BEHIND: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * C + tl.arange(0, C)
    last = tl.load(real).to(tl.int32) if MASKED else rows
    row = tl.load(index + at, mask=at < size, other=rows)
    value = normed_tile(
        h,
        stride,
        scale,
        shift,
        residual,
        row,
        column,
        last,
        rows,
        width,
        True,
        ADDS,
        MASKED,
    )
    there, from_row = (at < size)[:, None], at.to(tl.int64)[:, None] * (width + BEHIND)
    inside = (column < width)[None, :]
    tl.store(out + from_row + column[None, :], value, mask=there & inside)
    if BEHIND and tl.program_id(1) == 0:
        more = tl.arange(0, BEHIND)[None, :]
        first = tl.where(more == 0, 1.0, 0.0).to(out.dtype.element_ty)
        tl.store(out + from_row + width + more, first, mask=there & (more < BEHIND))
