"""The gradient of norm, ReLU and matrix product.

With s = ReLU(norm(h)) (plus a residual) and the product s matrix^T, the gradient of s
is `grad @ matrix`. The kernel of that product also adds the gradients of the centroid
rows, and sums what the gradient of the norm needs, while each tile is in registers.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

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
    norm_act_and_grad,
    norm_act_backward,
    norm_grad_rows,
)
from gnnak.fast.kernels.gpu.normed import load_columns
from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.sums import add_up
from gnnak.fast.kernels.plain.product import compose_norm_linear_backward
from gnnak.fast.kernels.records import CentroidRows, NormConstants

TILE = Tile(128, 64, 32, 3)
"""Tiles of the product; narrow, to leave registers for the sums computed after it."""


def norm_linear_backward(
    grad: Tensor,
    h: Tensor,
    k: NormConstants,
    s: Tensor | None,
    matrix: Tensor,
    more: CentroidRows | None,
    into: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute the gradients of `norm_linear`, that of `h` into the buffer `into`.

    Arguments as in `plain.norm_linear_backward`. Three steps: the gradient of s with
    the sums for the norm; the gradient of `h`, which also recomputes s where it was not
    saved; and the gradient of `matrix`, `grad^T s`, by PyTorch. The last one sums over
    the rows of both factors, a memory layout for which Triton's TF32 product is slow.

    Returns:
        Gradients of the norm's weight [w] and bias [w], of s [m, w], and of `matrix`
        [c, w].
    """
    if is_exact(h):
        given = (grad, h, k, s, matrix, more, into)
        return compose_norm_linear_backward(norm_act, norm_act_backward, *given)
    grad = grad.contiguous()
    grad_s, sums = _grad_rows(grad, h, k, matrix, more)
    if s is None:
        s = norm_act_and_grad(grad_s, h, k, sums, into)
    else:
        norm_grad_rows(grad_s, h, k, sums, True, into)
    return sums[1], sums[0], grad_s, grad.t() @ s


def _grad_rows(
    grad: Tensor, h: Tensor, k: NormConstants, matrix: Tensor, more: CentroidRows | None
) -> tuple[Tensor, Tensor]:
    """Compute the gradient of s, [m, w], and two sums over its rows, [2, w].

    The sums are sum(g) and sum(g * x), with g the gradient of the ReLU's input and x =
    (h - mean) * rstd: the gradients of the norm's bias and weight.
    """
    rows, width = h.shape
    count, steps = cut_rows(rows, TILE.rows)
    grad_s, partial = h.new_empty(rows, width), h.new_empty(count, 2, width)
    # The product sums over the rows of `matrix`: contiguous, they load in fewer steps.
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
    """Compute grad_s and the partial sums of one block of rows, in C columns.

    grad_s = grad @ matrix, and with `ADDS` the row `added[subgraph]` on top where the
    row is the centroid of its subgraph. A program looks that up for its own rows, so no
    atomics or scatter are needed.
    """
    column = tl.program_id(0) * C + tl.arange(0, C)
    part, inside = tl.program_id(1), column < width
    scale_ = load_columns(scale, column, inside)
    shift_ = load_columns(shift, column, inside)
    mean_ = load_columns(mean, column, inside)
    rstd_ = load_columns(rstd, column, inside)
    sum_grad = tl.zeros([C], dtype=partial.dtype.element_ty)
    sum_grad_normed = tl.zeros([C], dtype=partial.dtype.element_ty)
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
        sum_grad += tl.sum(back, axis=0)
        sum_grad_normed += tl.sum(back * ((value - mean_) * rstd_), axis=0)
    tl.store(partial + 2 * part * width + column, sum_grad, mask=inside)
    tl.store(partial + (2 * part + 1) * width + column, sum_grad_normed, mask=inside)
