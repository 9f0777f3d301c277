"""Gradients of products of normed rows: to the rows, and to the matrix."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.composed import compose_norm_linear_backward
from gnnak.fast.kernels.gpu.multiply import (
    Tile,
    cut_rows,
    is_exact,
    launch_options,
    multiply,
    precision,
)
from gnnak.fast.kernels.gpu.norm import norm_act
from gnnak.fast.kernels.gpu.norm_backward import (
    norm_act_backward,
    norm_both_ways,
    norm_to_rows,
)
from gnnak.fast.kernels.gpu.normed import of_columns
from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.sums import add_up
from gnnak.fast.kernels.records import CentroidRows, NormConstants

TILE = Tile(128, 64, 32, 3)
"""Tiles of the gradient of rows: small ones leave room for what follows the product."""


def norm_linear_backward(
    grad: Tensor,
    h: Tensor,
    k: NormConstants,
    s: Tensor | None,
    matrix: Tensor,
    more: CentroidRows | None,
    into: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `norm_linear`: of weight, bias, the normed rows and the matrix.

    That of h goes `into`; arguments as of the plain kernel. The matrix's is a product
    of PyTorch's: both of its factors lie the wrong way round for the tensor cores, as
    Triton uses them.
    """
    if is_exact(h):
        given = (grad, h, k, s, matrix, more, into)
        return compose_norm_linear_backward(norm_act, norm_act_backward, *given)
    grad = grad.contiguous()
    grad_s, sums = _grad_rows(grad, h, k, matrix, more)
    if s is None:
        s = norm_both_ways(grad_s, h, k, sums, into)
    else:
        norm_to_rows(grad_s, h, k, sums, True, into)
    return sums[1], sums[0], grad_s, grad.t() @ s


def _grad_rows(
    grad: Tensor, h: Tensor, k: NormConstants, matrix: Tensor, more: CentroidRows | None
) -> tuple[Tensor, Tensor]:
    """The gradient of s, [m, w], and the sums that the norm's needs, [2, w]."""
    rows, width = h.shape
    count, steps = cut_rows(rows, TILE.rows)
    grad_s, partial = h.new_empty(rows, width), h.new_empty(count, 2, width)
    # Side by side in memory, what is summed over is read in larger pieces.
    matrix = matrix.t().contiguous()
    added = (grad, grad, grad) if more is None else more
    _product_to_rows[(triton.cdiv(width, TILE.columns), count)](
        grad,
        matrix,
        h,
        h.stride(0),
        *k[:4],
        *added,
        added[0].stride(0),
        grad_s,
        partial,
        rows,
        grad.size(1),
        width,
        steps,
        more is not None,
        precision(h),
        TILE.rows,
        TILE.depth,
        TILE.columns,
        **launch_options(TILE, h.device),
    )
    return grad_s, add_up(partial)


@for_all_sizes
def _product_to_rows(
    grad,
    matrix,
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
    """The gradient of each part's rows, and what sums to that of their norm."""
    column = tl.program_id(0) * C + tl.arange(0, C)
    part, inside = tl.program_id(1), column < width
    scale_ = of_columns(scale, column, inside)
    shift_ = of_columns(shift, column, inside)
    mean_ = of_columns(mean, column, inside)
    rstd_ = of_columns(rstd, column, inside)
    plain = tl.zeros([C], dtype=partial.dtype.element_ty)
    normed = tl.zeros([C], dtype=partial.dtype.element_ty)
    for step in range(steps):
        row = (part * steps + step) * BLOCK + tl.arange(0, BLOCK)
        back, _ = multiply(
            grad,
            depth,
            scale,
            shift,
            matrix,
            depth,
            1,
            row,
            column,
            column,
            rows,
            rows,
            depth,
            width,
            False,
            False,
            False,
            PRECISION,
            K,
        )
        there = row < rows
        shown = there[:, None] & inside[None, :]
        from_row = row.to(tl.int64)[:, None]
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
