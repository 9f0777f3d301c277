"""Norm, ReLU, and what follows them, without keeping what lies between.

What a norm gives is computed again in the backward pass from what came into it: one
pass over memory in place of a tensor that is kept.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import Moments, NormConstants
from gnnak.fast.layers.rows import (
    Once,
    Recompute,
    Rows,
    can_overwrite,
    kept,
    maker,
    to_save,
)
from gnnak.nn.norm import BatchNorm


def norm_rows(norm: BatchNorm, h: Tensor) -> Tensor:
    """`norm(h)`, [m, c]."""
    return _NormAct.apply(h, norm.weight, norm.bias, None, norm, False, None)


def norm_relu_add(norm: BatchNorm, h: Rows, residual: Tensor) -> Tensor:
    """`residual + ReLU(norm(h))`, [m, c]."""
    weights = (norm.weight, norm.bias)
    return _NormAct.apply(h.values, *weights, residual, norm, True, h.moments)


def norm_relu_linear(norm: BatchNorm, h: Rows, linear: nn.Linear, normed: bool) -> Rows:
    """`linear(ReLU(norm(h)))`, [m, c'].

    Args:
        norm: The norm.
        h: Rows, [m, c].
        linear: The product.
        normed: Whether a norm with the statistics of the products follows.
    """
    (out,) = norm_relu_linears([norm], h, [linear], normed)
    return out


def norm_relu_linears(
    norms: Sequence[BatchNorm],
    h: Rows,
    linears: Sequence[nn.Linear],
    normed: bool,
    remade: bool = False,
) -> list[Rows]:
    """The same for every norm and product its share of the columns of h.

    Args:
        norms: The norms.
        h: Rows, [m, c * norms].
        linears: The products.
        normed: Whether norms with the statistics of the products follow.
        remade: Whether the products are made again rather than kept; h, should it be
            made again, is then made once for them and their gradients.
    """
    weights = [
        part
        for norm, linear in zip(norms, linears, strict=True)
        for part in (norm.weight, norm.bias, linear.weight, linear.bias)
    ]
    once = None
    if remade and h.again is not None:
        once = Once(h.again.alone or h.again.make)
        h = h._replace(again=h.again._replace(make=once))
    *outs, moments, constants = _NormLinears.apply(
        h.values, norms, normed, *h[1:], *weights
    )
    if once is not None:
        once.holds = outs[0].requires_grad
    agains: list[Recompute | None] = [None] * len(norms)
    if remade:
        pairs = enumerate(zip(constants, linears, strict=True))
        agains = [_product_again(h, i, len(norms), *pair) for i, pair in pairs]
    return [Rows(*part) for part in zip(outs, moments, agains, strict=True)]


def _product_again(
    h: Rows, number: int, count: int, k: NormConstants, linear: nn.Linear
) -> Recompute:
    """How the product of one of `count` shares of the columns of h is made again."""
    make_h = maker(h.again)

    def make(matrix: Tensor, offset: Tensor | None, *saved: Tensor | None) -> Tensor:
        part = kept(saved, make_h).chunk(count, dim=1)[number]
        kernels = kernels_for(part)
        return kernels.norm_linear(part, k, matrix, offset, k.real)[0]

    tensors = (linear.weight, linear.bias, *to_save(h.values, h.again))
    return Recompute(make, tensors, owned=True)


class _NormAct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor | None,
        norm: BatchNorm,
        relu: bool,
        moments: Moments | None,
    ) -> Tensor:
        kernels = kernels_for(h)
        k = kernels.norm_constants(h, norm, norm.real_rows(), moments)
        ctx.save_for_backward(h)
        ctx.k, ctx.relu, ctx.adds = k, relu, residual is not None
        return kernels.norm_act(h, k, relu, residual)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (h,) = ctx.saved_tensors
        grad = grad.contiguous()
        back = kernels_for(h).norm_act_backward(grad, h, ctx.k, ctx.relu)
        return *back, grad if ctx.adds else None, None, None, None


class _NormLinears(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        norms: Sequence[BatchNorm],
        normed: bool,
        moments: Moments | None,
        again: Recompute | None,
        *weights: Tensor | None,
    ) -> tuple[Any, ...]:
        kernels, real, count = kernels_for(h), norms[0].real_rows(), len(norms)
        matrices, offsets = weights[2::4], weights[3::4]
        known = [None] * count if moments is None else moments.chunk(count)
        parts = zip(h.chunk(count, dim=1), norms, known, strict=True)
        ctx.constants = [kernels.norm_constants(h, n, real, m) for h, n, m in parts]
        ctx.save_for_backward(*matrices, *offsets, *to_save(h, again))
        ctx.normed, ctx.make, ctx.over = normed, maker(again), can_overwrite(again)
        given = (h.chunk(count, dim=1), ctx.constants, matrices, offsets)
        made = [
            kernels.norm_linear(part, k, matrix, offset, real)
            for part, k, matrix, offset in zip(*given, strict=True)
        ]
        outs, found = zip(*made, strict=True)
        return *outs, found, ctx.constants

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        count = len(ctx.constants)
        saved = ctx.saved_tensors
        matrices, offsets = saved[:count], saved[count : 2 * count]
        h = kept(saved[2 * count :], ctx.make)
        if isinstance(ctx.make, Once):
            ctx.make.release()
        grad_h = h if ctx.over else torch.empty_like(h)
        parts = (rows.chunk(count, dim=1) for rows in (h, grad_h))
        back: list[Tensor | None] = []
        for grad, part, into, k, matrix, offset in zip(
            grads, *parts, ctx.constants, matrices, offsets, strict=False
        ):
            given = (grad, part, k, None, matrix, None, into)
            found = kernels_for(h).norm_linear_backward(*given)
            back += [*found[:2], found[3], offset_grad(grad, offset, ctx.normed)]
            # The gradient of the normed rows is as large as they are.
            del found
        return grad_h, None, None, None, None, *back


def offset_grad(grad: Tensor, offset: Tensor | None, normed: bool) -> Tensor | None:
    """The gradient of an offset of all rows; none where a norm of them takes it off."""
    if offset is None:
        return None
    return torch.zeros_like(offset) if normed else grad.sum(dim=0)
