"""Batch norm and ReLU, fused with the residual sum or the Linear after them.

The output of the norm is not saved for backward: it is recomputed from the norm's
input, which costs one pass over memory. In all shapes, m is the number of rows; most
matrices have one row per node of each rooted subgraph.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import Moments, NormConstants
from gnnak.fast.layers.rows import (
    CachedRecompute,
    Recompute,
    Rows,
    can_overwrite,
    recompute_function,
    saved_or_recomputed,
    to_save,
)
from gnnak.nn.norm import BatchNorm


class GivenNorm(NamedTuple):
    """The tensors and options of a batch norm in training, for `norm_rows`."""

    weight: Tensor
    """[c]: the factor of each column."""
    bias: Tensor
    """[c]: the offset of each column."""
    running_mean: Tensor
    """[c]: the running mean, which is updated in place."""
    running_var: Tensor
    """[c]: the running variance, which is updated in place."""
    momentum: float
    """Share of the batch in the new running statistics."""
    eps: float
    """Added to the variance."""
    real: Tensor
    """Number of rows that are not padding, a scalar."""
    training: bool = True
    """Whether to normalise with the statistics of the batch: always."""
    num_batches_tracked: None = None
    """The module that owns the norm counts the batches itself."""

    def real_rows(self) -> Tensor:
        """Return the number of rows that are not padding."""
        return self.real


def norm_rows(norm: BatchNorm | GivenNorm, h: Tensor) -> Tensor:
    """Return `norm(h)`, [m, c], computed by a fused kernel; h is a matrix [m, c]."""
    return _NormAct.apply(h, norm.weight, norm.bias, None, norm, False, None)


def norm_relu_add(
    norm: BatchNorm, h: Rows, residual: Tensor, dropout: float = 0.0
) -> Tensor:
    """Return `residual + Dropout(ReLU(norm(h)))`, [m, c].

    Args:
        norm: The norm before the ReLU.
        h: The input of the norm, [m, c].
        residual: Rows that are added at the end, [m, c].
        dropout: Probability that an entry is set to zero.
    """
    added = None if dropout else residual
    weights = (norm.weight, norm.bias)
    out = _NormAct.apply(h.values, *weights, added, norm, True, h.moments)
    return residual + F.dropout(out, dropout) if dropout else out


def norm_relu_linear(
    norm: BatchNorm, h: Rows, linear: nn.Linear, norm_follows: bool
) -> Rows:
    """Compute `linear(ReLU(norm(h)))`, [m, c'], for a matrix h with m rows.

    Args:
        norm: The norm before the ReLU.
        h: The input of the norm, [m, c].
        linear: The Linear after the ReLU.
        norm_follows: Whether the result goes into a norm that uses batch statistics:
            the bias of `linear` then cancels, and its gradient is zero.
    """
    (out,) = norm_relu_linears([norm], h, [linear], norm_follows)
    return out


def norm_relu_linears(
    norms: Sequence[BatchNorm],
    h: Rows,
    linears: Sequence[nn.Linear],
    norm_follows: bool,
    recompute: bool = False,
) -> list[Rows]:
    """Apply norm, ReLU and Linear to each of several equal parts of the columns of h.

    Args:
        norms: A norm for each part.
        h: The input of the norms, a matrix with m rows, [m, c * parts].
        linears: A Linear for each part.
        norm_follows: Whether all results go into norms that use batch statistics: the
            biases of `linears` then cancel, and their gradients are zero.
        recompute: Whether the results are recomputed in the backward pass instead of
            saved for backward.

    Returns:
        For each part, the output of its Linear, [m, c'].
    """
    weights = [
        part
        for norm, linear in zip(norms, linears, strict=True)
        for part in (norm.weight, norm.bias, linear.weight, linear.bias)
    ]
    cached_h = None
    if recompute and h.recompute is not None:
        cached_h = CachedRecompute(h.recompute.uncached or h.recompute.function)
        h = h._replace(recompute=h.recompute._replace(function=cached_h))
    *outs, moments, constants = _NormLinears.apply(
        h.values, norms, norm_follows, *h[1:], *weights
    )
    if cached_h is not None:
        # Only the backward pass of `_NormLinears` clears the cache, so cache only if it
        # will run.
        cached_h.caches = outs[0].requires_grad
    recomputes: list[Recompute | None] = [None] * len(norms)
    if recompute:
        pairs = enumerate(zip(constants, linears, strict=True))
        recomputes = [_product_recompute(h, i, len(norms), *pair) for i, pair in pairs]
    return [Rows(*part) for part in zip(outs, moments, recomputes, strict=True)]


def _product_recompute(
    h: Rows, index: int, count: int, k: NormConstants, linear: nn.Linear
) -> Recompute:
    """Return how to recompute `linear(ReLU(norm(part)))` in the backward pass.

    Args:
        h: The matrix of which `part` is one of several equal parts of the columns.
        index: Which of the parts `part` is, counted from 0.
        count: Number of parts.
        k: The scale and shift of the norm.
        linear: The Linear.
    """
    recompute_h = recompute_function(h.recompute)

    def product(matrix: Tensor, offset: Tensor | None, *saved: Tensor | None) -> Tensor:
        """Recompute the output of the Linear."""
        part = saved_or_recomputed(saved, recompute_h).chunk(count, dim=1)[index]
        kernels = kernels_for(part)
        return kernels.norm_linear(part, k, matrix, offset, k.real)[0]

    saved = (linear.weight, linear.bias, *to_save(h.values, h.recompute))
    return Recompute(product, saved, owned=True)


class _NormAct(torch.autograd.Function):
    """Autograd function: a batch norm, then optionally a ReLU and a residual sum.

    `moments` are the column statistics of the input h; None = compute them.
    """

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor | None,
        norm: BatchNorm | GivenNorm,
        relu: bool,
        moments: Moments | None,
    ) -> Tensor:
        kernels = kernels_for(h)
        k = kernels.norm_constants(h, norm, norm.real_rows(), moments)
        ctx.save_for_backward(h)
        ctx.k, ctx.relu, ctx.has_residual = k, relu, residual is not None
        return kernels.norm_act(h, k, relu, residual)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (h,) = ctx.saved_tensors
        grad = grad.contiguous()
        grads = kernels_for(h).norm_act_backward(grad, h, ctx.k, ctx.relu)
        return *grads, grad if ctx.has_residual else None, None, None, None


class _NormLinears(torch.autograd.Function):
    """Autograd function of `norm_relu_linears`: norm, ReLU, Linear on parts of columns.

    The function also returns the column statistics of all outputs, and the scales and
    shifts of all norms. `weights` are four tensors for each part of the columns: weight
    and bias of the norm, then weight and bias of the Linear.
    """

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        norms: Sequence[BatchNorm],
        norm_follows: bool,
        moments: Moments | None,
        recompute: Recompute | None,
        *weights: Tensor | None,
    ) -> tuple[Any, ...]:
        kernels, real, count = kernels_for(h), norms[0].real_rows(), len(norms)
        matrices, offsets = weights[2::4], weights[3::4]
        h_moments = [None] * count if moments is None else moments.chunk(count)
        parts = zip(h.chunk(count, dim=1), norms, h_moments, strict=True)
        ctx.constants = [kernels.norm_constants(h, n, real, m) for h, n, m in parts]
        ctx.save_for_backward(*matrices, *offsets, *to_save(h, recompute))
        ctx.norm_follows = norm_follows
        ctx.recompute = recompute_function(recompute)
        ctx.overwrite = can_overwrite(recompute)
        arguments = (h.chunk(count, dim=1), ctx.constants, matrices, offsets)
        results = [
            kernels.norm_linear(part, k, matrix, offset, real)
            for part, k, matrix, offset in zip(*arguments, strict=True)
        ]
        outs, out_moments = zip(*results, strict=True)
        return *outs, out_moments, ctx.constants

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        count = len(ctx.constants)
        saved = ctx.saved_tensors
        matrices, offsets = saved[:count], saved[count : 2 * count]
        h = saved_or_recomputed(saved[2 * count :], ctx.recompute)
        if isinstance(ctx.recompute, CachedRecompute):
            # Functions that read the results ran their backward passes before this one,
            # so h is not needed any more.
            ctx.recompute.release()
        grad_h = h if ctx.overwrite else torch.empty_like(h)
        parts = (rows.chunk(count, dim=1) for rows in (h, grad_h))
        grad_weights: list[Tensor | None] = []
        for grad, part, into, k, matrix, offset in zip(
            grads, *parts, ctx.constants, matrices, offsets, strict=False
        ):
            arguments = (grad, part, k, None, matrix, None, into)
            back = kernels_for(h).norm_linear_backward(*arguments)
            grad_offset = offset_grad(grad, offset, ctx.norm_follows)
            grad_weights += [*back[:2], back[3], grad_offset]
            # Free `back[2]`, an unused [m, c] gradient, before the next part.
            del back
        return grad_h, None, None, None, None, *grad_weights


def offset_grad(
    grad: Tensor, offset: Tensor | None, norm_follows: bool
) -> Tensor | None:
    """Return the gradient of an offset, such as a bias, that is added to every row.

    Args:
        grad: Gradient of the rows after the offset was added, [m, c].
        offset: The offset, [c]; None = there is no offset, and None is returned.
        norm_follows: Whether the rows go into a norm that uses batch statistics: the
            offset then cancels, and its gradient is zero.
    """
    if offset is None:
        return None
    return torch.zeros_like(offset) if norm_follows else grad.sum(dim=0)
