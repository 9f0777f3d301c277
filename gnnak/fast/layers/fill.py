"""What kept roots stand in for, in one pass: a product with a sparse matrix."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnak.fast.kernels import kernels_for
from gnnak.fast.layers.rows import side_by_side
from gnnak.sampling.estimate import Filling, SampledSubgraphs
from gnnak.subgraphs.groups import Groups


def fused_fill(values: Tensor, subgraphs: SampledSubgraphs) -> Tensor:
    """Make the values of kept roots [s, c] into values of all nodes, [n, c]."""
    takers, givers = subgraphs.by("taker"), subgraphs.by("giver")
    return _Fill.apply(values, subgraphs.filling, takers, givers)


class _Fill(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, filling: Filling, takers: Groups, givers: Groups
    ) -> Tensor:
        ctx.filling, ctx.givers = filling, givers
        given = side_by_side(values), filling.subgraph, filling.weight, takers
        return kernels_for(values).weighted_sum(*given)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        given = side_by_side(grad), ctx.filling.node, ctx.filling.weight, ctx.givers
        return kernels_for(grad).weighted_sum(*given), None, None, None
