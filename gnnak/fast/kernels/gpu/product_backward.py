"""The gradients of batch norm, ReLU and matrix product, in Triton.

The forward pass computes s = ReLU(norm(h)), perhaps plus a residual, and the product
s matrix^T. With `grad` the gradient of that product, the gradient of s is
`grad @ matrix`. While a tile of this gradient is in registers, the kernel also adds
further gradients to the rows of root nodes, and computes the sums over rows that the
gradient of the norm needs.
"""

from __future__ import annotations

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
from gnnak.fast.kernels.gpu.tiles import cdiv
from gnnak.fast.kernels.plain.product import compose_norm_linear_backward
from gnnak.fast.kernels.records import CentroidRows, NormConstants

TILE = Tile(128, 64, 32, 3)
"""Tile sizes of the product `grad @ matrix`. The tiles have few columns, which leaves
registers for the sums over rows that the same kernel computes."""


def norm_linear_backward(
    grad: Tensor,
    h: Tensor,
    k: NormConstants,
    s: Tensor | None,
    matrix: Tensor,
    more: CentroidRows | None,
    into: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute the gradients of `norm_linear`.

    The forward pass was a batch norm and a ReLU, with output s, and a Linear of s.

    Args:
        grad: Gradient of the Linear's output, [m, c].
        h: Rows before the norm, [m, w].
        k: Scale, shift and statistics of the batch norm.
        s: Input of the Linear, [m, w]; must be given if a residual was added to
            ReLU(scale h + shift). None = recompute s = ReLU(scale h + shift).
        matrix: Weight of the Linear, [c, w].
        more: Further gradient of s, from another use of the rows of root nodes; None =
            there is none.
        into: Buffer that receives the gradient of `h`, [m, w]. It may be `h` itself,
            which is then overwritten.

    Returns:
        Gradients of the norm's weight [w], of the norm's bias [w], of s [m, w], and of
        `matrix` [c, w].
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
    # A Triton product that sums over the rows of both factors is slow: use PyTorch.
    return sums[1], sums[0], grad_s, grad.t() @ s


def _grad_rows(
    grad: Tensor, h: Tensor, k: NormConstants, matrix: Tensor, more: CentroidRows | None
) -> tuple[Tensor, Tensor]:
    """Compute some gradients of a batch norm, a ReLU and a Linear.

    Arguments as in `norm_linear_backward`.

    Returns:
        The gradient of the Linear's input, [m, w], and the gradients of the norm's bias
        (row 0) and weight (row 1), [2, w].
    """
    rows, width = h.shape
    count, steps = cut_rows(rows, TILE.rows)
    grad_s, partial = h.new_empty(rows, width), h.new_empty(count, 2, width)
    # The product sums over the rows of `matrix`. A transposed copy has the summed axis
    # contiguous in memory, which loads faster.
    matrix = matrix.t().contiguous()
    added = (grad, grad, grad) if more is None else more
    _product_to_rows[(cdiv(width, TILE.columns), count)](
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
    """Triton kernel of `_grad_rows`: one program handles one block of rows.

    `grad_s` receives the gradient of the Linear's input, and `partial` receives partial
    sums of the gradients of the norm's bias and weight. Other arguments as in
    `_grad_rows`.
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
