"""The gradients of batch norm and ReLU, in two Triton kernels.

The gradient of every row depends on two sums over all rows (see
`normed.norm_correction`). The first kernel reads all rows to compute these sums; the
second kernel reads all rows again to compute their gradients.
"""

import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.normed import load_columns, norm_correction
from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.sums import add_up
from gnnak.fast.kernels.gpu.tiles import (
    BLOCK,
    SUMMED,
    cdiv,
    columns,
    parts,
    sum_dtype,
    tiles,
    widened,
)
from gnnak.fast.kernels.records import NormConstants


def norm_act_backward(
    grad: Tensor, h: Tensor, k: NormConstants, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of `norm_act` with respect to `h`, weight and bias.

    The output of the ReLU is recomputed from `h` in registers, so the forward pass need
    not save it.

    Args:
        grad: Gradient of the result of `norm_act`, [m, c].
        h: Rows before the norm, [m, c].
        k: Scale, shift and statistics of the batch norm.
        relu: Whether `norm_act` applied the ReLU.

    Returns:
        Gradients of `h` [m, c], of the norm's weight [c] and of its bias [c].
    """
    rows, width = h.shape
    count, steps = parts(rows)
    partial = h.new_empty(count, 2, width, dtype=sum_dtype(h))
    _norm_sums[(count, cdiv(width, columns(width)))](
        grad,
        h,
        h.stride(0),
        *k[:4],
        partial,
        rows,
        width,
        steps,
        relu,
        SUMMED,
        columns(width),
    )
    sums = add_up(partial)
    into = h.new_empty(h.shape)
    norm_grad_rows(grad, h, k, sums, relu, into)
    return into, sums[1], sums[0]


def norm_act_and_grad(
    grad: Tensor, h: Tensor, k: NormConstants, sums: Tensor, into: Tensor
) -> Tensor:
    """Recompute ReLU(scale h + shift), and compute the gradient of `h`.

    Args:
        grad: Gradient of ReLU(scale h + shift), [m, c].
        h: Rows before the norm, [m, c].
        k: Scale, shift and statistics of the batch norm.
        sums: Gradients of the norm's bias (row 0) and weight (row 1), [2, c].
        into: Buffer that receives the gradient of `h`, [m, c].

    Returns:
        The recomputed ReLU(scale h + shift), [m, c].
    """
    s = h.new_empty(h.shape)
    norm_grad_rows(grad, h, k, sums, True, into, s)
    return s


def norm_grad_rows(
    grad: Tensor,
    h: Tensor,
    k: NormConstants,
    sums: Tensor,
    relu: bool,
    into: Tensor,
    s: Tensor | None = None,
) -> None:
    """Compute the gradient of the input `h` of `norm_act`.

    Args:
        grad: Gradient of the result of `norm_act`, [m, c].
        h: Rows before the norm, [m, c].
        k: Scale, shift and statistics of the batch norm.
        sums: Gradients of the norm's bias (row 0) and weight (row 1), [2, c].
        relu: Whether `norm_act` applied the ReLU.
        into: Buffer that receives the gradient of `h`, [m, c].
        s: Buffer that receives ReLU(scale h + shift), recomputed, [m, c]; None = do not
            write this value.
    """
    rows, width = h.shape
    _norm_to_rows[tiles(rows, BLOCK, width)](
        grad,
        h,
        h.stride(0),
        *k[:4],
        sums,
        h if k.real is None else k.real,
        into,
        into.stride(0),
        h if s is None else s,
        rows,
        width,
        relu,
        k.of_batch,
        k.real is not None,
        s is not None,
        BLOCK,
        columns(width),
    )


@for_all_sizes
def _norm_sums(
    grad,
    h,
    stride,
    scale,
    shift,
    mean,
    rstd,
    partial,
    rows,
    width,
    steps,
    RELU: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `norm_act_backward`: gradients of the norm's weight and bias.

    These gradients are sums over rows. One program sums over one block of rows and
    writes the two sums to `partial`. Other arguments as in `norm_act_backward`.
    """
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    scale_ = load_columns(scale, column, inside)
    shift_ = load_columns(shift, column, inside)
    mean_ = load_columns(mean, column, inside)
    rstd_ = load_columns(rstd, column, inside)
    sum_grad = tl.zeros([C], dtype=partial.dtype.element_ty)
    sum_grad_normed = tl.zeros([C], dtype=partial.dtype.element_ty)
    step = 0
    while step < steps:
        row = (part * steps + step) * BLOCK + tl.arange(0, BLOCK)
        shown = (row < rows)[:, None] & inside[None, :]
        from_row = row.to(tl.int64)[:, None]
        value = widened(tl.load(h + from_row * stride + column[None, :], shown, 0.0))
        back = widened(tl.load(grad + from_row * width + column[None, :], shown, 0.0))
        if RELU:
            back = tl.where(value * scale_ + shift_ > 0, back, 0.0)
        sum_grad += tl.sum(back, axis=0)
        sum_grad_normed += tl.sum(back * ((value - mean_) * rstd_), axis=0)
        step += 1
    tl.store(partial + 2 * part * width + column, sum_grad, mask=inside)
    tl.store(partial + (2 * part + 1) * width + column, sum_grad_normed, mask=inside)


@for_all_sizes
def _norm_to_rows(
    grad,
    h,
    stride,
    scale,
    shift,
    mean,
    rstd,
    sums,
    real,
    into,
    into_stride,
    s,
    rows,
    width,
    RELU: tl.constexpr,
    OF_BATCH: tl.constexpr,
    PADDED: tl.constexpr,
    FORWARD: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    """Triton kernel of `norm_grad_rows`: compute one tile of the gradient of `h`.

    Arguments as in `norm_grad_rows`; `into` receives the gradient.
    """
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    shown = (row < rows)[:, None] & inside[None, :]
    last = tl.load(real).to(tl.int32) if PADDED else rows
    from_row = row.to(tl.int64)[:, None]
    scale_ = load_columns(scale, column, inside)
    shift_ = load_columns(shift, column, inside)
    value = widened(tl.load(h + from_row * stride + column[None, :], shown, 0.0))
    place = from_row * width + column[None, :]
    back = widened(tl.load(grad + place, mask=shown, other=0.0))
    if RELU:
        y = value * scale_ + shift_
        back = tl.where(y > 0, back, 0.0)
        if FORWARD:
            y = tl.maximum(y, 0.0)
            if PADDED and OF_BATCH:
                y = tl.where((row < last)[:, None], y, 0.0)
            tl.store(s + place, y, mask=shown)
    if OF_BATCH:
        correction = norm_correction(
            value, mean, rstd, sums, column, inside, width, last
        )
        if PADDED:
            correction = tl.where((row < last)[:, None] & (last > 1), correction, 0.0)
        back -= correction
    place = from_row * into_stride + column[None, :]
    tl.store(into + place, scale_ * back, mask=shown)
