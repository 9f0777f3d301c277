"""Norm, ReLU, and what follows them, without keeping what lies between.

What a norm gives is computed again in the backward pass from what came into it: one
pass over memory in place of a tensor that is kept.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gnnak.nn.kernels import kernels_for
from gnnak.nn.kernels.records import Moments
from gnnak.nn.padding import current_real_rows


class Product(NamedTuple):
    """Rows that a norm follows."""

    rows: Tensor
    """[m, c]."""
    moments: Moments | None = None
    """What is known of them; a norm computes what is not."""

    def chunk(self, count: int) -> "list[Product]":
        """The columns in so many parts."""
        parts = self.rows.chunk(count, dim=1)
        if self.moments is None:
            return [Product(part) for part in parts]
        moments = self.moments.chunk(count)
        return [Product(*each) for each in zip(parts, moments, strict=True)]


def norm_rows(norm: nn.BatchNorm1d, h: Tensor) -> Tensor:
    """`norm(h)`, [m, c]."""
    return _NormAct.apply(h, norm.weight, norm.bias, None, norm, False, None)


def norm_relu_add(norm: nn.BatchNorm1d, h: Product, residual: Tensor) -> Tensor:
    """`residual + ReLU(norm(h))`, [m, c]."""
    rows, moments = h
    return _NormAct.apply(rows, norm.weight, norm.bias, residual, norm, True, moments)


def norm_relu_linear(
    norm: nn.BatchNorm1d, h: Product, linear: nn.Linear, normed: bool
) -> Product:
    """`linear(ReLU(norm(h)))`, [m, c'].

    Args:
        norm: The norm.
        h: Rows, [m, c].
        linear: The product.
        normed: Whether a norm with the statistics of the products follows.
    """
    rows, moments = h
    weights = (norm.weight, norm.bias, linear.weight, linear.bias)
    return Product(*_NormLinear.apply(rows, *weights, norm, normed, moments))


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
    ) -> tuple[Tensor, Moments | None]:
        kernels, real = kernels_for(h), real_of(h)
        k = kernels.norm_constants(h, norm, real, moments)
        ctx.save_for_backward(h, matrix, offset)
        ctx.k, ctx.normed = k, normed
        return kernels.norm_linear(h, k, None, matrix, offset, real)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor | None, ...]:
        h, matrix, offset = ctx.saved_tensors
        back = kernels_for(h).norm_linear_backward(grad, h, ctx.k, None, matrix, None)
        *of_norm, _, grad_matrix = back
        grad_offset = offset_grad(grad, offset, ctx.normed)
        return *of_norm, grad_matrix, grad_offset, None, None, None


def real_of(rows: Tensor) -> Tensor | None:
    """How many of these rows are no padding, a scalar; None = all."""
    return current_real_rows().get(rows.size(0))


def with_rows(values: Tensor) -> Tensor:
    """The same numbers, those of a row side by side in memory."""
    return values if values.stride(1) == 1 else values.contiguous()


def affine(x: Tensor, matrix: Tensor, offset: Tensor | None) -> Tensor:
    """`x matrix^T + offset`."""
    return torch.nn.functional.linear(x, matrix, offset)


def offset_grad(grad: Tensor, offset: Tensor | None, normed: bool) -> Tensor | None:
    """The gradient of an offset of all rows; none where a norm of them takes it off."""
    if offset is None:
        return None
    return torch.zeros_like(offset) if normed else grad.sum(dim=0)
