"""Gradients of products of normed rows: to the rows, and to the matrix."""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.nn.kernels.composed import compose_norm_linear_backward
from gnnak.nn.kernels.fast.norm import norm_act, norm_act_backward, norm_to_rows
from gnnak.nn.kernels.fast.normed import normed_tile
from gnnak.nn.kernels.fast.product import is_exact, launch_options, precision, tile_of
from gnnak.nn.kernels.fast.sums import add_up
from gnnak.nn.kernels.fast.tiles import parts
from gnnak.nn.kernels.records import AtCentroids, Constants

PROGRAMS, MATRIX_PARTS = 512, 128
"""Programs for a matrix, at most about, and for a tile of it: these are added up."""


def norm_linear_backward(
    grad: Tensor,
    h: Tensor,
    k: Constants,
    residual: Tensor | None,
    matrix: Tensor,
    more: AtCentroids | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `norm_linear`: of h, weight, bias, the normed rows and the matrix.

    Arguments as of the plain kernel.
    """
    if is_exact(h):
        given = (grad, h, k, residual, matrix, more)
        return compose_norm_linear_backward(norm_act, norm_act_backward, *given)
    grad = grad.contiguous()
    grad_s, sums = _grad_rows(grad, h, k, matrix, more)
    grad_matrix = _grad_matrix(grad, h, k, residual)
    grad_h = norm_to_rows(grad_s, h, k, sums, relu=True)
    return grad_h, sums[1], sums[0], grad_s, grad_matrix


def _grad_rows(
    grad: Tensor, h: Tensor, k: Constants, matrix: Tensor, more: AtCentroids | None
) -> tuple[Tensor, Tensor]:
    """The gradient of s, [m, w], and the sums that the norm's needs, [2, w]."""
    rows, width = h.shape
    tile = tile_of(rows, width)
    count, steps = parts(rows, tile.rows)
    grad_s, partial = h.new_empty(rows, width), h.new_empty(count, 2, width)
    # Side by side in memory, what is summed over is read in larger pieces.
    matrix = matrix.t().contiguous().t()
    added = (grad, grad, grad) if more is None else more
    _to_rows[(triton.cdiv(width, tile.columns), count)](
        grad,
        matrix,
        *matrix.stride(),
        h,
        h.stride(0),
        *k[:4],
        *added,
        added[0].stride(0),
        grad_s,
        partial,
        rows,
        matrix.size(0),
        width,
        steps,
        more is not None,
        precision(h),
        tile.rows,
        tile.depth,
        tile.columns,
        **launch_options(tile, h.device),
    )
    return grad_s, add_up(partial)


def _grad_matrix(
    grad: Tensor, h: Tensor, k: Constants, residual: Tensor | None
) -> Tensor:
    """The gradient of the matrix, [c, w]."""
    rows, height, width = h.size(0), grad.size(1), h.size(1)
    tile, masked = tile_of(rows, width), k.of_batch and k.real is not None
    cuts = triton.cdiv(height, tile.rows), triton.cdiv(width, tile.columns)
    wanted = max(min(PROGRAMS // (cuts[0] * cuts[1]), MATRIX_PARTS), 1)
    steps = max(triton.cdiv(rows, tile.depth * wanted), 1)
    count = max(triton.cdiv(rows, tile.depth * steps), 1)
    partial = h.new_empty(count, height, width)
    _to_matrix[(*cuts, count)](
        grad,
        h,
        h.stride(0),
        k.scale,
        k.shift,
        h if residual is None else residual.contiguous(),
        k.real if masked else h,
        partial,
        rows,
        height,
        width,
        steps,
        residual is not None,
        masked,
        precision(h),
        tile.depth,
        tile.rows,
        tile.columns,
        **launch_options(tile, h.device),
    )
    return add_up(partial)


@triton.jit
def _to_rows(
    grad,
    matrix,
    matrix_row,
    matrix_column,
    h,
    stride,
    scale,
    shift,
    mean,
    rstd,
    added,
    centroid,
    subgraph,
    added_stride,
    grad_s,
    partial,
    rows,
    depth,
    width,
    steps,
    ADDS: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
    K: tl.constexpr,
    C: tl.constexpr,
):
    column = tl.program_id(0) * C + tl.arange(0, C)
    part = tl.program_id(1)
    inside = column < width
    scale_ = tl.load(scale + column, mask=inside, other=0.0)[None, :]
    shift_ = tl.load(shift + column, mask=inside, other=0.0)[None, :]
    mean_ = tl.load(mean + column, mask=inside, other=0.0)[None, :]
    rstd_ = tl.load(rstd + column, mask=inside, other=0.0)[None, :]
    plain = tl.zeros([C], dtype=partial.dtype.element_ty)
    normed = tl.zeros([C], dtype=partial.dtype.element_ty)
    for step in range(steps):
        row = (part * steps + step) * BLOCK + tl.arange(0, BLOCK)
        there = row < rows
        from_row = row.to(tl.int64)[:, None]
        back = tl.zeros([BLOCK, C], dtype=grad_s.dtype.element_ty)
        for begin in range(0, depth, K):
            inner = begin + tl.arange(0, K)
            left = tl.load(
                grad + from_row * depth + inner[None, :],
                mask=there[:, None] & (inner < depth)[None, :],
                other=0.0,
            )
            right = tl.load(
                matrix + inner[:, None] * matrix_row + column[None, :] * matrix_column,
                mask=(inner < depth)[:, None] & inside[None, :],
                other=0.0,
            )
            back += tl.dot(left, right, input_precision=PRECISION).to(back.dtype)
        shown = there[:, None] & inside[None, :]
        if ADDS:
            of = tl.load(subgraph + row, mask=there, other=0).to(tl.int64)
            owns = there & (tl.load(centroid + of, mask=there, other=-1) == row)
            back += tl.load(
                added + of[:, None] * added_stride + column[None, :],
                mask=owns[:, None] & inside[None, :],
                other=0.0,
            )
        tl.store(grad_s + from_row * width + column[None, :], back, mask=shown)
        value = tl.load(h + from_row * stride + column[None, :], mask=shown, other=0.0)
        back = tl.where(value * scale_ + shift_ > 0, back, 0.0)
        plain += tl.sum(back, axis=0)
        normed += tl.sum(back * ((value - mean_) * rstd_), axis=0)
    tl.store(partial + 2 * part * width + column, plain, mask=inside)
    tl.store(partial + (2 * part + 1) * width + column, normed, mask=inside)


@triton.jit
def _to_matrix(
    grad,
    h,
    stride,
    scale,
    shift,
    residual,
    real,
    partial,
    rows,
    height,
    width,
    steps,
    ADDS: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
    R: tl.constexpr,
    C: tl.constexpr,
):
    """Over each part's rows: the gradient's columns times those of the normed rows."""
    of_grad = tl.program_id(0) * R + tl.arange(0, R)
    column = tl.program_id(1) * C + tl.arange(0, C)
    part = tl.program_id(2)
    last = tl.load(real).to(tl.int32) if MASKED else rows
    total = tl.zeros([R, C], dtype=partial.dtype.element_ty)
    for step in range(steps):
        row = (part * steps + step) * BLOCK + tl.arange(0, BLOCK)
        left = tl.load(
            grad + row.to(tl.int64)[None, :] * height + of_grad[:, None],
            mask=(row < rows)[None, :] & (of_grad < height)[:, None],
            other=0.0,
        )
        right = normed_tile(
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
        total += tl.dot(left, right, input_precision=PRECISION).to(total.dtype)
    place = (part * height + of_grad).to(tl.int64)[:, None] * width + column[None, :]
    shown = (of_grad < height)[:, None] & (column < width)[None, :]
    tl.store(partial + place, total, mask=shown)
