"""Estimate the encodings of nodes whose rooted subgraphs SubgraphDrop dropped."""

from typing import Any

import torch
from torch import Tensor

from gnnak.fast.kernels import kernels_for
from gnnak.fast.layers.rows import with_unit_stride
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.groups import Groups


def fused_fill(values: Tensor, subgraphs: SampledSubgraphs) -> Tensor:
    """Return the encodings of all nodes, given the encodings of the sampled roots.

    SubgraphDrop samples some nodes as roots and drops the subgraphs of all other nodes.
    The encoding of a dropped node is estimated as a weighted sum of the encodings of
    sampled roots. `subgraphs.filling` is the sparse matrix of the weights.

    Args:
        values: The encodings of the s sampled roots, [s, c].
        subgraphs: The sampled subgraphs.

    Returns:
        The encodings of all n nodes, [n, c].
    """
    filling = subgraphs.filling
    by_node, by_root = subgraphs.by("taker"), subgraphs.by("giver")
    entries = (filling.subgraph, by_node, filling.node, by_root, filling.weight)
    return _Fill.apply(values, *entries)


class _Fill(torch.autograd.Function):
    """Autograd function: multiply a sparse matrix with a dense matrix.

    The backward pass applies the same function to the transposed sparse matrix, so
    gradients can be differentiated again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        column: Tensor,
        by_row: Groups,
        row: Tensor,
        by_column: Groups,
        weight: Tensor,
    ) -> Tensor:
        ctx.transposed = (row, by_column, column, by_row, weight)
        arguments = with_unit_stride(values), column, weight, by_row
        return kernels_for(values).weighted_sum(*arguments)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _Fill.apply(grad, *ctx.transposed), *[None] * 5
