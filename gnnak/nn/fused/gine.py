"""GINE, without a row for every edge copy."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch_geometric.nn import GINEConv

from gnnak.nn.fused.norm import norm_relu_linear
from gnnak.nn.fused.parts import two_linears
from gnnak.nn.fused.rows import Again, Rows, kept, maker, real_of, to_keep
from gnnak.nn.kernels import kernels_for
from gnnak.nn.kernels.records import Edges, Moments
from gnnak.subgraphs.rooted import RootedSubgraphs


def fits_gine(
    conv: GINEConv, edge_attr: Tensor | None, subgraphs: RootedSubgraphs
) -> bool:
    """Whether this is the GINE of the experiments: two Linears, a norm between."""
    parts = two_linears(conv.nn)
    return (
        parts is not None
        and edge_attr is not None
        and edge_attr.dim() == 2
        and edge_attr.size(1) == parts.first.in_features
        and conv.lin is None
        and conv.aggr == "add"
        and conv.flow == "source_to_target"
        and isinstance(conv.eps, Tensor)
    )


def run_gine(
    conv: GINEConv, c: Rows, edge_attr: Tensor | None, edges: Edges, normed: bool
) -> Rows:
    """What `conv` makes of the copies; arguments as of `FusedConv.run`."""
    parts = two_linears(conv.nn)
    assert parts is not None
    assert edge_attr is not None
    h = gine_linear(c, edge_attr, conv.eps, parts.first.weight, edges)
    return norm_relu_linear(parts.norm, h, parts.second, normed)


def gine_linear(c: Rows, e: Tensor, eps: Tensor, matrix: Tensor, edges: Edges) -> Rows:
    r"""$W \big((1 + \epsilon) c_i + \sum_{j \to i} \text{ReLU}(c_j + e_{ji})\big)$.

    Args:
        c: States of the copies, [m, w].
        e: States of the edges, [e, w].
        eps: A number, [1].
        matrix: W, [c', w].
        edges: The edge copies.
    """
    return Rows(*_GineLinear.apply(c.values, e, eps, matrix, edges, c.again))


class _GineLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        c: Tensor,
        e: Tensor,
        eps: Tensor,
        matrix: Tensor,
        edges: Edges,
        again: Again | None,
    ) -> tuple[Tensor, Moments | None]:
        kernels = kernels_for(c)
        ctx.save_for_backward(e, eps, matrix, *to_keep(c, again))
        ctx.edges, ctx.make = edges, maker(again)
        summed = kernels.messages(c, e, eps, edges)
        return kernels.norm_linear(summed, None, None, matrix, None, real_of(c))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor | None, ...]:
        e, eps, matrix, *saved = ctx.saved_tensors
        c = kept(saved, ctx.make)
        kernels = kernels_for(c)
        grad_matrix = grad.t() @ kernels.messages(c, e, eps, ctx.edges)
        back = kernels.messages_backward(grad @ matrix, c, e, eps, ctx.edges)
        return *back, grad_matrix, None, None
