"""Estimate the encodings of dropped roots (SubgraphDrop) by a sparse matrix product."""

from typing import Any

import torch
from torch import Tensor

from gnnak.fast.kernels import kernels_for
from gnnak.fast.layers.rows import with_unit_stride
from gnnak.sampling.estimate import SampledSubgraphs
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
    filling = subgraphs.filling
    takers, givers = subgraphs.by("taker"), subgraphs.by("giver")
    given = (filling.subgraph, takers, filling.node, givers, filling.weight)
    return _Fill.apply(values, *given)


class _Fill(torch.autograd.Function):
    """Multiply a sparse matrix with rows; the gradient multiplies its transpose.

    Both are the same function, so that it can be differentiated any number of times.
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
