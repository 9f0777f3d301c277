"""Batch norm, ReLU and matrix product in one Triton kernel, with column statistics.

Norm and ReLU are applied to rows while they are loaded, so their output is never
stored. The kernel also computes the column statistics of the product while its tiles
are in registers, so a following batch norm need not read the product again.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

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
from gnnak.fast.kernels.gpu.statistics import add_rows
from gnnak.fast.kernels.plain.product import compose_norm_linear
from gnnak.fast.kernels.records import Moments, NormConstants

FEW, MANY = Tile(128, 128, 32, 3), Tile(64, 128, 16, 4)
"""Tile sizes for products with few and with many rows.

With many rows, small tiles suffice: there are enough programs to hide memory
latency."""
MANY_ROWS = 2**16
"""Products with at least this many rows use the tile size `MANY`, others `FEW`."""


def norm_linear(
    h: Tensor,
    k: NormConstants | None,
    matrix: Tensor,
    offset: Tensor | None,
    real: Tensor | None,
) -> tuple[Tensor, Moments | None]:
    """Compute a batch norm, a ReLU and a Linear: `s matrix^T + offset`.

    Here `s = ReLU(scale h + shift)` is the output of norm and ReLU. If TF32 is allowed,
    one Triton kernel computes the result without storing s. Otherwise a Triton kernel
    computes s, and PyTorch computes the matrix product, which is faster in this case.

    Args:
        h: Rows before the norm, [m, w].
        k: The batch norm's scale and shift; None = no norm and no ReLU, s = h.
        matrix: Weight of the Linear, [c, w].
        offset: Bias of the Linear, [c]; None = no bias.
        real: Number of rows that are not padding, a scalar; None = all.

    Returns:
        The output of the Linear, [m, c], and its column statistics, which a following
        `norm_constants` can use; None in place of statistics if TF32 is not allowed.
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
    """Triton kernel of `norm_linear`: compute one block of rows of the product.

    `out` receives the product; `partial` receives the mean and the sum of squared
    deviations of every column in this block. Other arguments as in `norm_linear`.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    wide, narrow = columns_of(program, programs, width, WIDE, NARROW)
    part, count = tl.program_id(1), tl.num_programs(1)
    last = tl.load(real).to(tl.int32) if PADDED else rows
    mean = tl.zeros([WIDE], dtype=out.dtype.element_ty)
    m2 = tl.zeros([WIDE], dtype=out.dtype.element_ty)
    narrow_mean = tl.zeros([NARROW], dtype=out.dtype.element_ty)
    narrow_m2 = tl.zeros([NARROW], dtype=out.dtype.element_ty)
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
        value = store_tile(value, offset, out, row, wide, rows, width, OFFSET)
        mean, m2 = add_rows(mean, m2, seen, value, shown, new)
        if HAS_NARROW:
            value = store_tile(of_narrow, offset, out, row, narrow, rows, width, OFFSET)
            narrow_mean, narrow_m2 = add_rows(
                narrow_mean, narrow_m2, seen, value, shown, new
            )
        seen += new
    means, m2s = partial + part * width, partial + (count + part) * width
    tl.store(means + wide, mean, mask=wide < width)
    tl.store(m2s + wide, m2, mask=wide < width)
    if HAS_NARROW:
        tl.store(means + narrow, narrow_mean, mask=narrow < width)
        tl.store(m2s + narrow, narrow_m2, mask=narrow < width)


@triton.jit
def store_tile(value, offset, out, row, column, rows, width, OFFSET: tl.constexpr):
    """Add the Linear's bias to a tile of the product, store the tile, and return it.

    Args:
        value: The tile.
        offset: Pointer to the bias, [width].
        out: Pointer to the result, [rows, width].
        row: Row indices of the tile.
        column: Column indices of the tile.
        rows: Number of rows of the result.
        width: Number of columns of the result.
        OFFSET: Whether there is a bias; if False, nothing is added.
    """
    inside = column < width
    if OFFSET:
        value += tl.load(offset + column, mask=inside, other=0.0)[None, :]
    place = row.to(tl.int64)[:, None] * width + column[None, :]
    tl.store(out + place, value, mask=(row < rows)[:, None] & inside[None, :])
    return value
