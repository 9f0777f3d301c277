"""Fused blocks of PPGN (provably powerful graph network)."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, relu

from gnnak.fast.kernels import kernels_for
from gnnak.fast.layers.parts import Serves, has_hooks, implements
from gnnak.nn.base.ppgn import (
    PPGN,
    NodePairs,
    PPGNBlock,
    find_pairs,
    multiply_pairs,
    pool_pairs,
)
from gnnak.nn.copies import lift_edges
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs


@implements("update_pairs")
def fused_block(
    serves: Serves, block: PPGNBlock, x: Tensor, pairs: NodePairs
) -> Tensor:
    if not serves(x) or not can_fuse_block(block, x):
        return NotImplemented
    arguments = _arguments(block, x)
    with torch.autocast(x.device.type, enabled=False):
        return _Block.apply(pairs, *arguments)


@implements("pool_block")
def fused_pool_block(
    serves: Serves, block: PPGNBlock, x: Tensor, pairs: NodePairs
) -> Tensor:
    """Compute `PPGNBlock.pool_block`, [n, 2w], with the Linear `mix` after the pool."""
    if not serves(x) or has_hooks(block) or not can_fuse_block(block, x):
        return NotImplemented
    *arguments, matrix, bias = _arguments(block, x)
    with torch.autocast(x.device.type, enabled=False):
        parts = _PooledBlock.apply(pairs, *arguments)
        # [n, 2, 2w]: X_ii and the product's entry (i, i), then the sums over j != i.
        states = torch.cat([part.unflatten(1, (2, -1)) for part in parts], dim=2)
        # A sum over n - 1 pairs has the bias n - 1 times.
        times = torch.stack([torch.ones_like(pairs.size), pairs.size - 1], dim=1)
        out = centred_linear(states, matrix) + times[..., None].to(bias.dtype) * bias
        return out.flatten(1)


KINDS = [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU]
"""The types of the modules in each MLP of a block, in order."""


def can_fuse_block(block: PPGNBlock, x: Tensor) -> bool:
    """Return whether a block has its original modules, without hooks, in one dtype."""
    inner = [*block.left, *block.right, block.mix]
    if [type(module) for module in inner] != [*KINDS, *KINDS, nn.Linear]:
        return False
    if any(map(has_hooks, [block.left, block.right, *inner])):
        return False
    linears = _linears(block)
    if any(linear.bias is None for linear in linears):
        return False
    if torch.is_autocast_enabled(x.device.type):
        return x.dtype != torch.double
    return all(linear.weight.dtype == x.dtype for linear in linears)


def _linears(block: PPGNBlock) -> list[nn.Linear]:
    """Return five Linears: two of the left MLP, two of the right MLP, and `mix`."""
    inner = [*block.left, *block.right, block.mix]
    return [module for module in inner if isinstance(module, nn.Linear)]


def _arguments(block: PPGNBlock, x: Tensor) -> list[Tensor]:
    left, left_2, right, right_2, mix = _linears(block)
    found = [
        x,
        torch.cat([left.weight, right.weight]),
        torch.cat([left.bias, right.bias]),
        *(each for part in (left_2, right_2, mix) for each in (part.weight, part.bias)),
    ]
    kind = x.device.type
    if not torch.is_autocast_enabled(kind):
        return found
    return [each.to(torch.get_autocast_dtype(kind)) for each in found]


def centred_linear(x: Tensor, matrix: Tensor) -> Tensor:
    """Return `x @ matrix.t()`, [n, 2, c'], for two states of each node, `x`, [n, 2, c].

    The mean over all nodes is subtracted from `x`, and its product with `matrix` is
    added. Otherwise, rounding to TensorFloat-32 could lose differences between nodes.
    """
    # The mean of no row is NaN.
    mean = x.detach().mean(dim=0).nan_to_num()
    return linear(x - mean, matrix) + (matrix * mean[:, None]).sum(dim=2)


class _Block(torch.autograd.Function):
    """Autograd function of `fused_block`; `weights` are from both MLPs and `mix`."""

    @staticmethod
    def forward(ctx: Any, pairs: NodePairs, x: Tensor, *weights: Tensor) -> Tensor:
        inner, left, right = _mlps(x, *weights[:6])
        product = kernels_for(x).pair_product(left, right, pairs)
        (of_x, of_product), bias = weights[6].chunk(2, dim=1), weights[7]
        out = torch.addmm(bias, x, of_x.t()).addmm_(product, of_product.t())
        ctx.pairs = pairs
        ctx.save_for_backward(x, *weights, inner, left, right, product)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # With activation checkpointing, saved tensors can be read only once.
        x, *rest = ctx.saved_tensors
        weights, (inner, left, right, product) = rest[:8], rest[8:]
        with torch.autocast(grad.device.type, enabled=False):
            if torch.is_grad_enabled():
                plain_block = partial(_plain_block, ctx.pairs)
                _, vjp, *_ = torch.func.vjp(plain_block, x, *weights)
                return None, *vjp(grad)
            of_x, of_product = weights[6].chunk(2, dim=1)
            of_mix = torch.cat([grad.t() @ x, grad.t() @ product], dim=1)
            backs = kernels_for(x).pair_product_backward(
                grad @ of_product, left, right, ctx.pairs
            )
            grad_x = grad @ of_x if ctx.needs_input_grad[1] else None
            found = _mlp_gradients(x, inner, backs, weights, grad_x)
            return None, grad_x, *found, of_mix, grad.sum(dim=0)


class _PooledBlock(torch.autograd.Function):
    """Autograd function: pool `x`, and pool the product of the outputs of both MLPs."""

    @staticmethod
    def forward(
        ctx: Any, pairs: NodePairs, x: Tensor, *weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        inner, left, right = _mlps(x, *weights)
        ctx.pairs = pairs
        ctx.save_for_backward(x, *weights, inner, left, right)
        kernels = kernels_for(x)
        return kernels.pool_pairs(x, pairs), kernels.pool_product(left, right, pairs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, *rest = ctx.saved_tensors
        weights, (inner, left, right), pairs = rest[:6], rest[6:], ctx.pairs
        with torch.autocast(x.device.type, enabled=False):
            if torch.is_grad_enabled():
                plain_pooled = partial(_plain_pooled, pairs)
                _, vjp, *_ = torch.func.vjp(plain_pooled, x, *weights)
                return None, *vjp(grads)
            kernels = kernels_for(x)
            backs = kernels.pool_product_backward(grads[1], left, right, pairs)
            grad_x = None
            if ctx.needs_input_grad[1]:
                grad_x = kernels.pool_pairs_backward(grads[0], pairs)
            found = _mlp_gradients(x, inner, backs, weights, grad_x)
            return None, grad_x, *found


def _mlps(x: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Run the left MLP and the right MLP of a block; both end with a ReLU.

    Returns the hidden states of both MLPs, [p, 2w], and the output of each MLP, [p, w].
    `weights` are three pairs (matrix, bias): of the stacked first Linears of both MLPs,
    of the left MLP's last Linear, and of the right MLP's last Linear.
    """
    inner = _linear_relu(x, *weights[:2])
    for_left, for_right = inner.chunk(2, dim=1)
    left = _linear_relu(for_left, *weights[2:4])
    return inner, left, _linear_relu(for_right, *weights[4:6])


def _linear_relu(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """Return ReLU(x matrix^T + bias), [p, c']; on a GPU, in a single cuBLAS call."""
    if torch.is_grad_enabled():  # The fused function is not differentiable.
        return relu(linear(x, matrix, bias))
    return torch._addmm_activation(bias, x, matrix.t())


def _mlp_gradients(
    x: Tensor,
    inner: Tensor,
    backs: tuple[Tensor, Tensor],
    weights: list[Tensor],
    grad_x: Tensor | None,
) -> list[Tensor]:
    """Return the gradients of both MLPs' weights; add the gradient of `x` to `grad_x`.

    `inner` has the hidden states of both MLPs. `backs` are the gradients before the
    last ReLU of the left MLP and before that of the right MLP.
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


def _plain_block(pairs: NodePairs, x: Tensor, *weights: Tensor) -> Tensor:
    _, left, right = _mlps(x, *weights[:6])
    product = multiply_pairs(left, right, pairs)
    return linear(torch.cat([x, product], dim=1), *weights[6:])


def _plain_pooled(
    pairs: NodePairs, x: Tensor, *weights: Tensor
) -> tuple[Tensor, Tensor]:
    _, left, right = _mlps(x, *weights)
    product = multiply_pairs(left, right, pairs)
    return pool_pairs(x, pairs), pool_pairs(product, pairs)


def can_share_pairs(layer: GNNAK) -> bool:
    gnn, calling = layer.gnn, layer.calling
    usual = calling.takes_batch and calling.keywords is None
    return type(gnn) is PPGN and not has_hooks(gnn) and usual


def embedding_on_pairs(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | None
) -> Tensor:
    """Compute `GNNAK.embed` for a PPGN; all layers share one cached `NodePairs`."""
    gnn: nn.Module = layer.gnn
    assert isinstance(gnn, PPGN)
    pairs = subgraphs.once(NodePairs, lambda: find_pairs(subgraphs.subgraph))
    h = layer.augment(x, subgraphs)
    e = None if edge_attr is None else lift_edges(edge_attr, subgraphs)
    return layer.project(gnn.on_pairs(h, subgraphs.edge_index, e, pairs))
