"""Autograd functions of the blocks and sums of PPGN, and their gradients.

PPGN (provably powerful graph network) has a state for each of the p pairs (i, j) of
nodes of one graph; see `NodePairs`. A block has two MLPs, of which the matrix products
are computed, and a last Linear.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, relu

from gnnak.fast.kernels import kernels_for, kernels_of_backward, plain
from gnnak.nn.base.ppgn import NodePairs, multiply_pairs


class Block(torch.autograd.Function):
    """Autograd function of `fused_block`: a block of PPGN.

    Arguments are the pairs of nodes, their states, the weights of both MLPs as in
    `_mlps`, and weight and bias of the last Linear.
    """

    @staticmethod
    def forward(ctx: Any, pairs: NodePairs, x: Tensor, *weights: Tensor) -> Tensor:
        """Compute the new states of node pairs, [p, w]."""
        inner, left, right = _mlps(x, *weights[:6])
        product = kernels_for(x).pair_product(left, right, pairs)
        (of_x, of_product), bias = weights[6].chunk(2, dim=1), weights[7]
        out = torch.addmm(bias, x, of_x.t()).addmm_(product, of_product.t())
        ctx.pairs = pairs
        ctx.save_for_backward(x, *weights, inner, left, right, product)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of all arguments."""
        # With activation checkpointing, saved tensors can be read only once.
        x, *rest = ctx.saved_tensors
        weights, (inner, left, right, product) = rest[:8], rest[8:]
        with torch.autocast(grad.device.type, enabled=False):
            if torch.is_grad_enabled():
                given, pairs = [x, *weights], ctx.pairs
                return None, *_gradients_of(
                    lambda: _plain_block(pairs, *given), given, [grad]
                )
            of_x, of_product = weights[6].chunk(2, dim=1)
            of_mix = torch.cat([grad.t() @ x, grad.t() @ product], dim=1)
            backs = kernels_for(x).pair_product_backward(
                grad @ of_product, left, right, ctx.pairs
            )
            grad_x = grad @ of_x if ctx.needs_input_grad[1] else None
            found = _mlp_gradients(x, inner, backs, weights, grad_x)
            return None, grad_x, *found, of_mix, grad.sum(dim=0)


class PooledBlock(torch.autograd.Function):
    """Autograd function: `pool_pairs` of states and of the products of a block.

    Arguments are those of `Block`, without the weight and bias of the last Linear.
    """

    @staticmethod
    def forward(
        ctx: Any, pairs: NodePairs, x: Tensor, *weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute the sums of states and of products, [n, 2w] each."""
        inner, left, right = _mlps(x, *weights)
        ctx.pairs = pairs
        ctx.save_for_backward(x, *weights, inner, left, right)
        kernels = kernels_for(x)
        return kernels.pool_pairs(x, pairs), kernels.pool_product(left, right, pairs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of all arguments."""
        x, *rest = ctx.saved_tensors
        weights, (inner, left, right), pairs = rest[:6], rest[6:], ctx.pairs
        with torch.autocast(x.device.type, enabled=False):
            if torch.is_grad_enabled():
                given = [x, *weights]
                return None, *_gradients_of(
                    lambda: _plain_pooled(pairs, *given), given, list(grads)
                )
            kernels = kernels_for(x)
            backs = kernels.pool_product_backward(grads[1], left, right, pairs)
            grad_x = None
            if ctx.needs_input_grad[1]:
                grad_x = kernels.pool_pairs_backward(grads[0], pairs)
            found = _mlp_gradients(x, inner, backs, weights, grad_x)
            return None, grad_x, *found


def _mlps(
    x: Tensor,
    matrix: Tensor,
    bias: Tensor,
    left_matrix: Tensor,
    left_bias: Tensor,
    right_matrix: Tensor,
    right_bias: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute both MLPs of a block.

    Args:
        x: States of node pairs, [p, w].
        matrix: Weights of the first Linears of both MLPs, [2w, w].
        bias: Their biases, [2w].
        left_matrix: Weight of the second Linear of the left MLP, [w, w].
        left_bias: Its bias, [w].
        right_matrix: Weight of the second Linear of the right MLP, [w, w].
        right_bias: Its bias, [w].

    Returns:
        The outputs of the first ReLUs, [p, 2w], and of the left and the right MLP.
    """
    inner = _linear_relu(x, matrix, bias)
    for_left, for_right = inner.chunk(2, dim=1)
    left = _linear_relu(for_left, left_matrix, left_bias)
    return inner, left, _linear_relu(for_right, right_matrix, right_bias)


def _linear_relu(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """Return ReLU(x matrix^T + bias), [p, c'].

    On a GPU, cuBLAS adds the bias and applies the ReLU before it writes the result.
    """
    return torch._addmm_activation(bias, x, matrix.t())


def _mlp_gradients(
    x: Tensor,
    inner: Tensor,
    backs: tuple[Tensor, Tensor],
    weights: list[Tensor],
    grad_x: Tensor | None,
) -> list[Tensor]:
    """Compute the gradients of `_mlps` with respect to the weights, in order.

    Args:
        x: States of node pairs, [p, w].
        inner: Outputs of the first ReLUs, [p, 2w].
        backs: Gradients of the outputs of both MLPs, before their last ReLU.
        weights: The weights, in the order of `_mlps`.
        grad_x: The gradient of `x` is added to this tensor, in place; or None.
    """
    back, found = torch.empty_like(inner), []
    for of_one, given, weight, into in zip(
        backs, inner.chunk(2, dim=1), weights[2:6:2], back.chunk(2, dim=1), strict=True
    ):
        found += [of_one.t() @ given, of_one.sum(dim=0)]
        torch.mm(of_one, weight, out=into)
    # The gradient before the first ReLUs, in place.
    torch.ops.aten.threshold_backward.grad_input(back, inner, 0, grad_input=back)
    if grad_x is not None:
        grad_x.addmm_(back, weights[0])
    return [back.t() @ x, back.sum(dim=0), *found]


def _gradients_of(
    compute: Callable[[], Tensor | tuple[Tensor, ...]],
    given: list[Tensor],
    grads: list[Tensor],
) -> list[Tensor | None]:
    """Compute gradients that can be differentiated again.

    Args:
        compute: Computes the outputs in plain PyTorch.
        given: The tensors with respect to which to differentiate; None is returned for
            those that need no gradient.
        grads: Gradients of the outputs.
    """
    wanted = [each for each in given if each.requires_grad]
    found = iter(torch.autograd.grad(compute(), wanted, grads, create_graph=True))
    return [next(found) if each.requires_grad else None for each in given]


def _plain_mlps(x: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
    """Compute both MLPs of a block in plain PyTorch; arguments as in `_mlps`."""
    for_left, for_right = relu(linear(x, *weights[:2])).chunk(2, dim=1)
    left = relu(linear(for_left, *weights[2:4]))
    return left, relu(linear(for_right, *weights[4:6]))


def _plain_block(pairs: NodePairs, x: Tensor, *weights: Tensor) -> Tensor:
    """Compute the result of `Block` in plain PyTorch."""
    product = multiply_pairs(*_plain_mlps(x, *weights[:6]), pairs)
    return linear(torch.cat([x, product], dim=1), *weights[6:])


def _plain_pooled(
    pairs: NodePairs, x: Tensor, *weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the results of `PooledBlock` in plain PyTorch."""
    product = multiply_pairs(*_plain_mlps(x, *weights), pairs)
    return plain.pool_pairs(x, pairs), plain.pool_pairs(product, pairs)


class Pool(torch.autograd.Function):
    """Autograd function of `fused_pool`; the gradient can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pairs: NodePairs) -> Tensor:
        """Compute the sums, [n, 2w]."""
        ctx.pairs = pairs
        return kernels_for(x).pool_pairs(x, pairs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Compute the gradient of the states of node pairs, [p, w]."""
        kernels = kernels_of_backward(grad)
        return kernels.pool_pairs_backward(grad, ctx.pairs), None
