"""Estimate the encodings of dropped roots (SubgraphDrop) by a sparse matrix product."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnak.fast.kernels import kernels_for
from gnnak.fast.layers.rows import with_unit_stride
from gnnak.sampling.estimate import Filling, SampledSubgraphs
from gnnak.subgraphs.groups import Groups


def fused_fill(values: Tensor, subgraphs: SampledSubgraphs) -> Tensor:
    """Return an encoding of all nodes, given the encoding of sampled roots.

    If the subgraph of a node was dropped, the node's encoding is estimated as a
    weighted sum of the encodings of sampled roots. The weights are the sparse matrix
    `subgraphs.filling`.

    Args:
        values: The encodings of the s sampled roots, [s, c].
        subgraphs: The sampled subgraphs.

    Returns:
        The encodings of all n nodes, [n, c].
    """
    takers, givers = subgraphs.by("taker"), subgraphs.by("giver")
    return _Fill.apply(values, subgraphs.filling, takers, givers)


class _Fill(torch.autograd.Function):
    """Autograd function that multiplies the sparse matrix `filling` with `values`.

    `takers` are the entries of the matrix grouped by row, and `givers` the same entries
    grouped by column.
    """

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, filling: Filling, takers: Groups, givers: Groups
    ) -> Tensor:
        ctx.filling, ctx.givers = filling, givers
        arguments = with_unit_stride(values), filling.subgraph, filling.weight, takers
        return kernels_for(values).weighted_sum(*arguments)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        filling, grad = ctx.filling, with_unit_stride(grad)
        arguments = grad, filling.node, filling.weight, ctx.givers
        return kernels_for(grad).weighted_sum(*arguments), None, None, None
