"""Norm, ReLU, and what follows them, without keeping what lies between.

What a norm gives is computed again in the backward pass from what came into it: one
pass over memory in place of a tensor that is kept.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gnnak.nn.kernels import kernels_for
from gnnak.nn.padding import current_real_rows


def norm_rows(norm: nn.BatchNorm1d, h: Tensor) -> Tensor:
    """`norm(h)`, [m, c]."""
    return _NormAct.apply(h, norm.weight, norm.bias, None, norm, False)


def norm_relu_add(norm: nn.BatchNorm1d, h: Tensor, residual: Tensor) -> Tensor:
    """`residual + ReLU(norm(h))`, [m, c]."""
    return _NormAct.apply(h, norm.weight, norm.bias, residual, norm, True)


def norm_relu_linear(
    norm: nn.BatchNorm1d, h: Tensor, linear: nn.Linear, normed: bool
) -> Tensor:
    """`linear(ReLU(norm(h)))`, [m, c'].

    Args:
        norm: The norm.
        h: Rows, [m, c].
        linear: The product.
        normed: Whether a norm with the statistics of the products follows.
    """
    return _NormLinear.apply(
        h, norm.weight, norm.bias, linear.weight, linear.bias, norm, normed
    )


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
    ) -> Tensor:
        kernels = kernels_for(h)
        k = kernels.norm_constants(h, norm, current_real_rows().get(h.size(0)))
        ctx.save_for_backward(h)
        ctx.k, ctx.relu, ctx.adds = k, relu, residual is not None
        return kernels.norm_act(h, k, relu, residual)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (h,) = ctx.saved_tensors
        grad = grad.contiguous()
        back = kernels_for(h).norm_act_backward(grad, h, ctx.k, ctx.relu)
        return *back, grad if ctx.adds else None, None, None


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
    ) -> Tensor:
        kernels = kernels_for(h)
        k = kernels.norm_constants(h, norm, current_real_rows().get(h.size(0)))
        ctx.save_for_backward(h, matrix, offset)
        ctx.k, ctx.normed = k, normed
        return affine(kernels.norm_act(h, k, True, None), matrix, offset)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, matrix, offset = ctx.saved_tensors
        kernels = kernels_for(h)
        grad_matrix = grad.t() @ kernels.norm_act(h, ctx.k, True, None)
        back = kernels.norm_act_backward(grad @ matrix, h, ctx.k, True)
        grad_offset = offset_grad(grad, offset, ctx.normed)
        return *back, grad_matrix, grad_offset, None, None


def affine(x: Tensor, matrix: Tensor, offset: Tensor | None) -> Tensor:
    """`x matrix^T + offset`."""
    return torch.nn.functional.linear(x, matrix, offset)


def offset_grad(grad: Tensor, offset: Tensor | None, normed: bool) -> Tensor | None:
    """The gradient of an offset of all rows; none where a norm of them takes it off."""
    if offset is None:
        return None
    return torch.zeros_like(offset) if normed else grad.sum(dim=0)
