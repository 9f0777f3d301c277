"""Fused blocks and sums of PPGN (provably powerful graph network).

A block of PPGN has two MLPs and a matrix product per channel. The fused version reads
the input of both MLPs once, adds biases and ReLUs in the matrix products of the
Linears, and never concatenates or transposes states of node pairs.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from gnnak.fast.layers.pair_blocks import Block, Pool, PooledBlock
from gnnak.fast.layers.parts import has_hooks
from gnnak.nn.base.ppgn import PPGN, NodePairs, PPGNBlock, find_pairs
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
    given = _arguments(block, x)
    with torch.autocast(x.device.type, enabled=False):
        return Block.apply(pairs, *given)


def fused_pool_block(block: PPGNBlock, x: Tensor, pairs: NodePairs) -> Tensor:
    """Compute the result of `PPGNBlock.pool_block`, [n, 2w].

    The last Linear of the block is applied to the sums over node pairs, not to all node
    pairs.

    Args:
        block: A block that `can_fuse_block` accepts.
        x: States of node pairs, [p, w].
        pairs: The pair of nodes that each row stands for.
    """
    *given, matrix, bias = _arguments(block, x)
    with torch.autocast(x.device.type, enabled=False):
        parts = PooledBlock.apply(pairs, *given)
        # [n, 2, 2w]: X_ii and the product's entry (i, i), then the sums over j != i.
        states = torch.cat([part.unflatten(1, (2, -1)) for part in parts], dim=2)
        # A sum over n - 1 pairs has the bias n - 1 times.
        times = torch.stack([torch.ones_like(pairs.size), pairs.size - 1], dim=1)
        out = centred_linear(states, matrix) + times[..., None].to(bias.dtype) * bias
        return out.flatten(1)


def centred_linear(x: Tensor, matrix: Tensor) -> Tensor:
    """Return `x @ matrix.t()`, with the mean of `x` multiplied in full precision.

    Matrix products in TensorFloat-32 (TF32) round their inputs to 10 bits. If the rows
    of `x` differ by little, rounding would erase the differences.

    Args:
        x: States, [n, k, c].
        matrix: Weight of a Linear, [c', c].
    """
    # The mean of no row is NaN.
    mean = x.detach().mean(dim=0).nan_to_num()
    return linear(x - mean, matrix) + (matrix * mean[:, None]).sum(dim=2)


def _arguments(block: PPGNBlock, x: Tensor) -> list[Tensor]:
    """Return states and weights as `Block` takes them, in the dtype of autocast."""
    left, left_2, right, right_2, mix = _linears(block)
    given = [
        x,
        torch.cat([left.weight, right.weight]),
        torch.cat([left.bias, right.bias]),
        *(each for part in (left_2, right_2, mix) for each in (part.weight, part.bias)),
    ]
    kind = x.device.type
    if not torch.is_autocast_enabled(kind):
        return given
    return [each.to(torch.get_autocast_dtype(kind)) for each in given]


def fused_pool(x: Tensor, pairs: NodePairs) -> Tensor:
    """Compute the result of `pool_pairs`, [n, 2w].

    Args:
        x: States of node pairs, [p, w].
        pairs: The pair of nodes that each row stands for.
    """
    return Pool.apply(x, pairs)


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
