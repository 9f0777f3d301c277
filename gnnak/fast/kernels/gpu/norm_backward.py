"""The gradient of norm and ReLU, in two passes."""

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.normed import of_columns, pull_of
from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.sums import add_up
from gnnak.fast.kernels.gpu.tiles import BLOCK, SUMMED, columns, parts, tiles
from gnnak.fast.kernels.records import NormConstants


def norm_act_backward(
    grad: Tensor, h: Tensor, k: NormConstants, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `norm_act`: of h [m, c], of the norm's weight and bias [c]."""
    rows, width = h.shape
    count, steps = parts(rows)
    partial = h.new_empty(count, 2, width)
    _norm_sums[(count, triton.cdiv(width, columns(width)))](
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
    norm_to_rows(grad, h, k, sums, relu, into)
    return into, sums[1], sums[0]


def norm_both_ways(
    grad: Tensor, h: Tensor, k: NormConstants, sums: Tensor, into: Tensor
) -> Tensor:
    """`norm_act` with a ReLU, [m, c], and its gradient, in one pass.

    Args:
        grad: Of what `norm_act` gave, [m, c].
        h: As of `norm_act`.
        k: Scale and shift.
        sums: Of the gradient, and of it times the normed rows, [2, c].
        into: Where the gradient of h goes, [m, c].
    """
    s = h.new_empty(h.shape)
    norm_to_rows(grad, h, k, sums, True, into, s)
    return s


def norm_to_rows(
    grad: Tensor,
    h: Tensor,
    k: NormConstants,
    sums: Tensor,
    relu: bool,
    into: Tensor,
    s: Tensor | None = None,
) -> None:
    """The gradient of h goes `into`; what `norm_act` gives into s, if there is one.

    Other arguments as of `norm_both_ways`.
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
    """Sums of the gradient, and of it times the normed rows, over each part."""
    part = tl.program_id(0)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    scale_ = of_columns(scale, column, inside)
    shift_ = of_columns(shift, column, inside)
    mean_ = of_columns(mean, column, inside)
    rstd_ = of_columns(rstd, column, inside)
    plain = tl.zeros([C], dtype=partial.dtype.element_ty)
    normed = tl.zeros([C], dtype=partial.dtype.element_ty)
    step = 0
    while step < steps:
        row = (part * steps + step) * BLOCK + tl.arange(0, BLOCK)
        shown = (row < rows)[:, None] & inside[None, :]
        from_row = row.to(tl.int64)[:, None]
        value = tl.load(h + from_row * stride + column[None, :], mask=shown, other=0.0)
        back = tl.load(grad + from_row * width + column[None, :], mask=shown, other=0.0)
        if RELU:
            back = tl.where(value * scale_ + shift_ > 0, back, 0.0)
        plain += tl.sum(back, axis=0)
        normed += tl.sum(back * ((value - mean_) * rstd_), axis=0)
        step += 1
    tl.store(partial + 2 * part * width + column, plain, mask=inside)
    tl.store(partial + (2 * part + 1) * width + column, normed, mask=inside)


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
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = column < width
    shown = (row < rows)[:, None] & inside[None, :]
    last = tl.load(real).to(tl.int32) if PADDED else rows
    from_row = row.to(tl.int64)[:, None]
    scale_ = of_columns(scale, column, inside)
    shift_ = of_columns(shift, column, inside)
    value = tl.load(h + from_row * stride + column[None, :], mask=shown, other=0.0)
    place = from_row * width + column[None, :]
    back = tl.load(grad + place, mask=shown, other=0.0)
    if RELU:
        y = value * scale_ + shift_
        back = tl.where(y > 0, back, 0.0)
        if FORWARD:
            y = tl.maximum(y, 0.0)
            if PADDED and OF_BATCH:
                y = tl.where((row < last)[:, None], y, 0.0)
            tl.store(s + place, y, mask=shown)
    if OF_BATCH:
        pull = pull_of(value, mean, rstd, sums, column, inside, width, last)
        if PADDED:
            pull = tl.where((row < last)[:, None] & (last > 1), pull, 0.0)
        back -= pull
    place = from_row * into_stride + column[None, :]
    tl.store(into + place, scale_ * back, mask=shown)
