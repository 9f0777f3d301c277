"""Fused blocks and sums of PPGN (provably powerful graph network).

A block of PPGN has two MLPs and a matrix product per channel. The fused version reads
the input of both MLPs once, adds biases and ReLUs in the matrix products of the
Linears, and never concatenates or transposes states of node pairs.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, relu

from gnnak.fast.kernels import kernels_for, kernels_of_backward
from gnnak.fast.layers.parts import has_hooks
from gnnak.nn.base.node_pairs import NodePairs, find_pairs, multiply_pairs
from gnnak.nn.base.ppgn import PPGN, PPGNBlock
from gnnak.nn.copies import lift_edges
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs

KINDS = [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU]
"""The modules of an MLP of a block, in order."""


def can_fuse_block(block: PPGNBlock, x: Tensor) -> bool:
    """Return whether `fused_block` can replace a block of PPGN.

    It can if no module in the block was replaced or has hooks, and if the states have
    the dtype of the weights, or autocast converts both.

    Args:
        block: The block.
        x: States of node pairs, [p, w].
    """
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
    """Return the Linears of a block: two of the left MLP, two of the right, and W."""
    inner = [*block.left, *block.right, block.mix]
    return [module for module in inner if isinstance(module, nn.Linear)]


def fused_block(block: PPGNBlock, x: Tensor, pairs: NodePairs) -> Tensor:
    """Compute new states of node pairs, [p, w], as `PPGNBlock.forward` does.

    Args:
        block: A block that `can_fuse_block` accepts.
        x: States of node pairs, [p, w].
        pairs: The pair of nodes that each row stands for.
    """
    left, left_2, right, right_2, mix = _linears(block)
    given = [
        x,
        torch.cat([left.weight, right.weight]),
        torch.cat([left.bias, right.bias]),
        *(each for part in (left_2, right_2, mix) for each in (part.weight, part.bias)),
    ]
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        given = [each.to(dtype) for each in given]
    with torch.autocast(kind, enabled=False):
        return _Block.apply(pairs, *given)


def fused_pool(x: Tensor, pairs: NodePairs) -> Tensor:
    """Compute the result of `pool_pairs`, [n, 2w].

    Args:
        x: States of node pairs, [p, w].
        pairs: The pair of nodes that each row stands for.
    """
    return _Pool.apply(x, pairs)


def can_share_pairs(layer: GNNAK) -> bool:
    """Return whether `embedding_on_pairs` can run the base GNN of a GNN-AK layer.

    It can if the base GNN is a PPGN without hooks, called with its usual arguments.
    """
    gnn, calling = layer.gnn, layer.calling
    usual = calling.takes_batch and calling.keywords is None
    return type(gnn) is PPGN and not has_hooks(gnn) and usual


def embedding_on_pairs(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | None
) -> Tensor:
    """Compute `GNNAK.embed` for a PPGN; all layers share the pairs of nodes.

    The pairs are cached in `subgraphs`, so the host reads the sizes of the subgraphs
    from the device only once.

    Args:
        layer: A layer that `can_share_pairs` accepts.
        x: States of the n nodes, [n, c].
        subgraphs: The rooted subgraphs.
        edge_attr: States of the edges, [e, c]; None if there are none.
    """
    gnn: nn.Module = layer.gnn
    assert isinstance(gnn, PPGN)
    pairs = subgraphs.once("node pairs", lambda: find_pairs(subgraphs.subgraph))
    h = layer.augment(x, subgraphs)
    e = None if edge_attr is None else lift_edges(edge_attr, subgraphs)
    return layer.project(gnn.on_pairs(h, subgraphs.edge_index, e, pairs))


class _Block(torch.autograd.Function):
    """Autograd function of `fused_block`."""

    @staticmethod
    def forward(ctx: Any, pairs: NodePairs, x: Tensor, *weights: Tensor) -> Tensor:
        matrix, bias, left_matrix, left_bias, right_matrix, right_bias = weights[:6]
        mix, mix_bias = weights[6:]
        inner = _linear_relu(x, matrix, bias)
        for_left, for_right = inner.chunk(2, dim=1)
        left = _linear_relu(for_left, left_matrix, left_bias)
        right = _linear_relu(for_right, right_matrix, right_bias)
        product = kernels_for(x).pair_product(left, right, pairs)
        of_x, of_product = mix.chunk(2, dim=1)
        out = torch.addmm(mix_bias, x, of_x.t()).addmm_(product, of_product.t())
        ctx.pairs = pairs
        ctx.save_for_backward(x, *weights, inner, left, right, product)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(grad.device.type, enabled=False):
            if torch.is_grad_enabled():
                return None, *_differentiable_gradients(ctx, grad)
            return None, *_gradients(ctx, grad)


def _linear_relu(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """Return ReLU(x matrix^T + bias), [p, c'].

    On a GPU, cuBLAS adds the bias and applies the ReLU before it writes the result.
    """
    return torch._addmm_activation(bias, x, matrix.t())


def _gradients(ctx: Any, grad: Tensor) -> list[Tensor | None]:
    """Compute the gradients of the arguments of a block, in order, without `pairs`.

    Args:
        ctx: What `_Block.forward` saved.
        grad: Gradient of the new states of node pairs, [p, w].
    """
    # With activation checkpointing, saved tensors can be read only once.
    *given, inner, left, right, product = ctx.saved_tensors
    x, matrix, _, left_matrix, _, right_matrix, _, mix, _ = given
    of_x, of_product = mix.chunk(2, dim=1)
    grad_mix = torch.cat([grad.t() @ x, grad.t() @ product], dim=1)
    back, kernels = grad @ of_product, kernels_for(x)
    of_left, of_right = kernels.pair_product_backward(back, left, right, ctx.pairs)
    back = torch.empty_like(inner)
    found: list[Tensor | None] = []
    for of_one, weight, given, into in zip(
        (of_left, of_right),
        (left_matrix, right_matrix),
        inner.chunk(2, dim=1),
        back.chunk(2, dim=1),
        strict=True,
    ):
        found += [of_one.t() @ given, of_one.sum(dim=0)]
        torch.mm(of_one, weight, out=into)
    # The gradient before the first ReLU, in place.
    torch.ops.aten.threshold_backward.grad_input(back, inner, 0, grad_input=back)
    grad_x = None
    if ctx.needs_input_grad[1]:
        grad_x = (grad @ of_x).addmm_(back, matrix)
    of_first = [back.t() @ x, back.sum(dim=0)]
    return [grad_x, *of_first, *found, grad_mix, grad.sum(dim=0)]


def _differentiable_gradients(ctx: Any, grad: Tensor) -> list[Tensor | None]:
    """Compute the result of `_gradients` so that it can be differentiated again."""
    given = ctx.saved_tensors[:9]
    x, matrix, bias, left_matrix, left_bias, right_matrix, right_bias, *mix = given
    for_left, for_right = relu(linear(x, matrix, bias)).chunk(2, dim=1)
    left = relu(linear(for_left, left_matrix, left_bias))
    right = relu(linear(for_right, right_matrix, right_bias))
    product = multiply_pairs(left, right, ctx.pairs)
    out = linear(torch.cat([x, product], dim=1), *mix)
    wanted = [each for each in given if each.requires_grad]
    found = iter(torch.autograd.grad(out, wanted, grad, create_graph=True))
    return [next(found) if each.requires_grad else None for each in given]


class _Pool(torch.autograd.Function):
    """Autograd function of `fused_pool`; the gradient can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pairs: NodePairs) -> Tensor:
        ctx.pairs = pairs
        return kernels_for(x).pool_pairs(x, pairs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        kernels = kernels_of_backward(grad)
        return kernels.pool_pairs_backward(grad, ctx.pairs), None
