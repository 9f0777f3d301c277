"""Products of rows that are normed as they are read; moments of what is written."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.composed import compose_norm_linear
from gnnak.fast.kernels.gpu.multiply import (
    Tile,
    columns_of,
    cut_columns,
    cut_rows,
    is_exact,
    launch_options,
    multiply,
    precision,
)
from gnnak.fast.kernels.gpu.norm import norm_act
from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.statistics import with_rows
from gnnak.fast.kernels.records import Moments, NormConstants

FEW, MANY = Tile(128, 128, 32, 3), Tile(64, 128, 16, 4)
"""Tiles for few and for many rows: with many, programs run side by side anyway."""
MANY_ROWS = 2**16
"""From how many rows on there are many."""


def norm_linear(
    h: Tensor,
    k: NormConstants | None,
    matrix: Tensor,
    offset: Tensor | None,
    real: Tensor | None,
) -> tuple[Tensor, Moments | None]:
    """`norm_act(h, k, True, None) matrix^T + offset`, and its moments.

    Arguments as of the plain kernel.
    """
    if is_exact(h):
        return compose_norm_linear(norm_act, h, k, matrix, offset), None
    rows, width = h.size(0), matrix.size(0)
    tile = MANY if rows >= MANY_ROWS else FEW
    programs, *tiles = cut_columns(width, tile.columns)
    count, steps = cut_rows(rows, tile.rows)
    out, partial = h.new_empty(rows, width), h.new_empty(2, count, width)
    masked = k is not None and k.of_batch and k.real is not None
    _product[(programs, count)](
        h,
        h.stride(0),
        h if k is None else k.scale,
        h if k is None else k.shift,
        h if real is None else real,
        matrix,
        *matrix.stride(),
        matrix if offset is None else offset,
        out,
        partial,
        rows,
        h.size(1),
        width,
        steps,
        k is not None,
        masked,
        offset is not None,
        real is not None,
        precision(h),
        tile.rows,
        tile.depth,
        *tiles,
        **launch_options(tile, h.device),
    )
    return out, Moments(partial, steps * tile.rows)


@for_all_sizes
def _product(
    h,
    stride,
    scale,
    shift,
    real,
    matrix,
    matrix_row,
    matrix_column,
    offset,
    out,
    partial,
    rows,
    depth,
    width,
    steps,
    NORMED: tl.constexpr,
    MASKED: tl.constexpr,
    OFFSET: tl.constexpr,
    PADDED: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
    K: tl.constexpr,
    WIDE: tl.constexpr,
    NARROW: tl.constexpr,
    HAS_NARROW: tl.constexpr,
):
    """Products of each part's rows; their mean, and sum of squares around it."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    wide, narrow = columns_of(program, programs, width, WIDE, NARROW)
    part, count = tl.program_id(1), tl.num_programs(1)
    last = tl.load(real).to(tl.int32) if PADDED else rows
    mean = tl.zeros([WIDE], dtype=out.dtype.element_ty)
    around = tl.zeros([WIDE], dtype=out.dtype.element_ty)
    narrow_mean = tl.zeros([NARROW], dtype=out.dtype.element_ty)
    narrow_around = tl.zeros([NARROW], dtype=out.dtype.element_ty)
    seen = 0
    for step in range(steps):
        first = (part * steps + step) * BLOCK
        row = first + tl.arange(0, BLOCK)
        value, of_narrow = multiply(
            h,
            stride,
            scale,
            shift,
            matrix,
            matrix_row,
            matrix_column,
            row,
            wide,
            narrow,
            last,
            rows,
            depth,
            width,
            NORMED,
            MASKED,
            HAS_NARROW,
            PRECISION,
            K,
        )
        new = tl.maximum(tl.minimum(last - first, BLOCK), 0)
        shown = (row < last)[:, None]
        value = written(value, offset, out, row, wide, rows, width, OFFSET)
        mean, around = with_rows(mean, around, seen, value, shown, new)
        if HAS_NARROW:
            value = written(of_narrow, offset, out, row, narrow, rows, width, OFFSET)
            narrow_mean, narrow_around = with_rows(
                narrow_mean, narrow_around, seen, value, shown, new
            )
        seen += new
    means, arounds = partial + part * width, partial + (count + part) * width
    tl.store(means + wide, mean, mask=wide < width)
    tl.store(arounds + wide, around, mask=wide < width)
    if HAS_NARROW:
        tl.store(means + narrow, narrow_mean, mask=narrow < width)
        tl.store(arounds + narrow, narrow_around, mask=narrow < width)


@triton.jit
def written(value, offset, out, row, column, rows, width, OFFSET: tl.constexpr):
    """A tile, with the offset, that is now written."""
    inside = column < width
    if OFFSET:
        value += tl.load(offset + column, mask=inside, other=0.0)[None, :]
    place = row.to(tl.int64)[:, None] * width + column[None, :]
    tl.store(out + place, value, mask=(row < rows)[:, None] & inside[None, :])
    return value
