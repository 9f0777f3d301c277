"""Apply batch norm and ReLU to tiles while they are loaded, in Triton.

Kernels call the functions that are decorated with `triton.jit`. `norm_act_at` launches
a kernel that computes selected rows only.
"""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.tiles import BLOCK, columns, tiles
from gnnak.fast.kernels.records import BIAS_COLUMN, NormConstants


def norm_act_at(
    h: Tensor, k: NormConstants, residual: Tensor | None, index: Tensor, ones: bool
) -> Tensor:
    """Return selected rows of `residual + ReLU(scale h + shift)`, [s, c].

    Only the selected rows are read and computed.

    Args:
        h: Rows before the norm, [m, c].
        k: Scale, shift and statistics of the batch norm.
        residual: Added after the ReLU, [m, c]; None = no residual.
        index: Indices of the s rows to return, [s].
        ones: Whether to append `BIAS_COLUMN`, (1, 0, 0, 0), to every row; the result is
            then [s, c + 4].
    """
    rows, width = h.shape
    masked = k.of_batch and k.real is not None
    appended = len(BIAS_COLUMN) if ones else 0
    out = h.new_empty(index.numel(), width + appended)
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
        appended,
        BLOCK,
        columns(width),
    )
    return out


@triton.jit
def load_columns(values, column, inside):
    """Load one value for each column of a tile, as a tensor with one row, [1, C].

    Args:
        values: Pointer to the values of all columns.
        column: Indices of the C columns of the tile.
        inside: The mask of columns that exist.
    """
    return tl.load(values + column, mask=inside, other=0.0)[None, :]


@triton.jit
def norm_correction(value, mean, rstd, sums, column, inside, width, last):
    """Return the correction term in the gradient of a batch norm, for one tile.

    If g is the gradient of the norm's output, the gradient of its input is
    scale * (g - correction). The correction arises because the norm's statistics depend
    on all input rows.

    Args:
        value: A tile of the input rows of the norm.
        mean: Pointer to the mean of every column.
        rstd: Pointer to the reciprocal standard deviation of every column.
        sums: Pointer to the gradients of the norm's bias and weight, [2, width].
        column: Column indices of the tile.
        inside: The mask of columns that exist.
        width: Number of columns of the tensor.
        last: Number of rows that are not padding.
    """
    mean_ = load_columns(mean, column, inside)
    rstd_ = load_columns(rstd, column, inside)
    sum_grad = load_columns(sums, column, inside)
    sum_grad_normed = load_columns(sums + width, column, inside)
    return (sum_grad + (value - mean_) * rstd_ * sum_grad_normed) / tl.maximum(last, 1)


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
    """Load a tile of `h` and return `residual + ReLU(scale h + shift)` for it.

    Kernels call this instead of loading a stored ReLU output, so that output is never
    written to memory. Elements outside of the tensor are zero.

    Args:
        h: Pointer to the rows before the norm, [rows, width].
        stride: Row stride of `h`.
        scale: Pointer to the norm's scale, [width].
        shift: Pointer to the norm's shift, [width].
        residual: Pointer to the residual, [rows, width].
        row: Row indices of the tile.
        column: Column indices of the tile.
        last: Number of rows that are not padding.
        rows: Number of rows of `h`.
        width: Number of columns of `h`.
        NORMED: Whether to apply norm and ReLU; if False, `h` itself is used.
        ADDS: Whether to add the residual.
        MASKED: Whether to set the ReLU's output to zero for padding rows.
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
    APPENDED: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `norm_act_at`: compute one tile of the selected rows.

    Arguments as in `norm_act_at`; `out` receives the selected rows.
    """
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
