"""Norm, ReLU, and what follows them, without keeping what lies between.

What a norm gives is computed again in the backward pass from what came into it: one
pass over memory in place of a tensor that is kept.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gnnak.nn.fused.rows import Again, Rows, kept, maker, real_of, to_keep
from gnnak.nn.kernels import kernels_for
from gnnak.nn.kernels.records import Moments


def norm_rows(norm: nn.BatchNorm1d, h: Tensor) -> Tensor:
    """`norm(h)`, [m, c]."""
    return _NormAct.apply(h, norm.weight, norm.bias, None, norm, False, None)


def norm_relu_add(norm: nn.BatchNorm1d, h: Rows, residual: Tensor) -> Tensor:
    """`residual + ReLU(norm(h))`, [m, c]."""
    weights = (norm.weight, norm.bias)
    return _NormAct.apply(h.values, *weights, residual, norm, True, h.moments)


def norm_relu_linear(
    norm: nn.BatchNorm1d, h: Rows, linear: nn.Linear, normed: bool
) -> Rows:
    """`linear(ReLU(norm(h)))`, [m, c'].

    Args:
        norm: The norm.
        h: Rows, [m, c].
        linear: The product.
        normed: Whether a norm with the statistics of the products follows.
    """
    weights = (norm.weight, norm.bias, linear.weight, linear.bias)
    return Rows(*_NormLinear.apply(h.values, *weights, norm, normed, *h[1:]))


class _NormAct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor | None,
        norm: nn.BatchNorm1d,
        relu: bool,
        moments: Moments | None,
    ) -> Tensor:
        kernels = kernels_for(h)
        k = kernels.norm_constants(h, norm, real_of(h), moments)
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


class _NormLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        matrix: Tensor,
        offset: Tensor | None,
        norm: nn.BatchNorm1d,
        normed: bool,
        moments: Moments | None,
        again: Again | None,
    ) -> tuple[Tensor, Moments | None]:
        kernels, real = kernels_for(h), real_of(h)
        k = kernels.norm_constants(h, norm, real, moments)
        ctx.save_for_backward(matrix, offset, *to_keep(h, again))
        ctx.k, ctx.normed, ctx.make = k, normed, maker(again)
        return kernels.norm_linear(h, k, None, matrix, offset, real)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor | None, ...]:
        matrix, offset, *saved = ctx.saved_tensors
        h = kept(saved, ctx.make)
        back = kernels_for(h).norm_linear_backward(grad, h, ctx.k, None, matrix, None)
        *of_norm, _, grad_matrix = back
        grad_offset = offset_grad(grad, offset, ctx.normed)
        return *of_norm, grad_matrix, grad_offset, None, None, None, None


def affine(x: Tensor, matrix: Tensor, offset: Tensor | None) -> Tensor:
    """`x matrix^T + offset`."""
    return torch.nn.functional.linear(x, matrix, offset)


def offset_grad(grad: Tensor, offset: Tensor | None, normed: bool) -> Tensor | None:
    """The gradient of an offset of all rows; none where a norm of them takes it off."""
    if offset is None:
        return None
    return torch.zeros_like(offset) if normed else grad.sum(dim=0)
