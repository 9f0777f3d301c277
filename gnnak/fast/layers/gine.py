"""GINE, without a row for every edge copy."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch_geometric.nn import GINEConv

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import Edges, EdgeStates, Moments
from gnnak.fast.layers.norm import norm_relu_linear
from gnnak.fast.layers.parts import two_linears
from gnnak.fast.layers.rows import Recompute, Rows, kept, maker, to_save
from gnnak.nn.padding import current_real_rows
from gnnak.subgraphs.rooted import RootedSubgraphs


def fits_gine(conv: GINEConv, e: EdgeStates | None, subgraphs: RootedSubgraphs) -> bool:
    """Whether this is the GINE of the experiments: two Linears, a norm between."""
    parts = two_linears(conv.nn)
    return (
        parts is not None
        and e is not None
        and e.values.size(1) == parts.first.in_features
        and conv.lin is None
        and conv.aggr == "add"
        and conv.flow == "source_to_target"
        and isinstance(conv.eps, Tensor)
    )


def run_gine(
    conv: GINEConv, c: Rows, e: EdgeStates | None, edges: Edges, normed: bool
) -> tuple[Rows, Rows]:
    """What `conv` makes of the copies; arguments as of `FusedConv.run`."""
    parts = two_linears(conv.nn)
    assert parts is not None
    assert e is not None
    h, c = gine_linear(c, e, conv.eps, parts.first.weight, edges)
    return norm_relu_linear(parts.norm, h, parts.second, normed), c


def gine_linear(
    c: Rows, e: EdgeStates, eps: Tensor, matrix: Tensor, edges: Edges
) -> tuple[Rows, Rows]:
    r"""$W \big((1 + \epsilon) c_i + \sum_{j \to i} \text{ReLU}(c_j + e_{ji})\big)$.

    Args:
        c: States of the copies, [m, w].
        e: States of the edges, [e, w].
        eps: A number, [1].
        matrix: W, [c', w].
        edges: The edge copies.

    Returns:
        Products [m, c'], and c, for whatever else reads it: both gradients of it are
        then summed in one pass.
    """
    given = (c.values, e.values, eps, matrix, e.number, edges, c.again)
    values, same, moments = _GineLinear.apply(*given)
    return Rows(values, moments), Rows(same, again=c.again)


class _GineLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        c: Tensor,
        values: Tensor,
        eps: Tensor,
        matrix: Tensor,
        number: Tensor | None,
        edges: Edges,
        again: Recompute | None,
    ) -> tuple[Tensor, Tensor, Moments | None]:
        kernels = kernels_for(c)
        e = EdgeStates(values, number).at(edges.edge)
        ctx.save_for_backward(*e, eps, matrix, *to_save(c, again))
        ctx.edges, ctx.make = edges, maker(again)
        real = current_real_rows().nodes
        summed = kernels.messages(c, e, eps, edges)
        h, moments = kernels.norm_linear(summed, None, matrix, None, real)
        return h, c, moments

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: Tensor, more: Tensor, _: None
    ) -> tuple[Tensor | None, ...]:
        values, number, eps, matrix, *saved = ctx.saved_tensors
        c = kept(saved, ctx.make)
        kernels, given = kernels_for(c), (c, EdgeStates(values, number), eps, ctx.edges)
        grad_matrix = grad.t() @ kernels.messages(*given)
        back = kernels.messages_backward(grad @ matrix, *given, more.contiguous())
        return *back, grad_matrix, None, None, None
