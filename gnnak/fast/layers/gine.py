"""Fused GINE on rooted subgraphs: the messages are never stored."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch_geometric.nn import GINEConv

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import Edges, Moments
from gnnak.fast.layers.norm import norm_relu_linear
from gnnak.fast.layers.parts import two_linears
from gnnak.fast.layers.rows import (
    Recompute,
    Rows,
    recompute_function,
    saved_or_recomputed,
    to_save,
)
from gnnak.nn.padding import current_real_rows
from gnnak.subgraphs.rooted import RootedSubgraphs


def fits_gine(conv: GINEConv, e: Tensor | None, subgraphs: RootedSubgraphs) -> bool:
    """Return whether `run_gine` computes the same result as `conv`.

    It does if the update network is Linear, norm, ReLU and Linear, epsilon is learned,
    and there are edge states as wide as the node states.
    """
    parts = two_linears(conv.nn)
    return (
        parts is not None
        and e is not None
        and e.size(1) == parts.first.in_features
        and conv.lin is None
        and conv.aggr == "add"
        and conv.flow == "source_to_target"
        and isinstance(conv.eps, Tensor)
    )


def run_gine(
    conv: GINEConv, c: Rows, e: Tensor | None, edges: Edges, norm_follows: bool
) -> tuple[Rows, Rows]:
    """Apply a GINE conv in every rooted subgraph; see `FusedConv.run`."""
    parts = two_linears(conv.nn)
    assert parts is not None
    values, same, moments = _GineLinear.apply(
        c.values, e, conv.eps, parts.first.weight, edges, c.recompute
    )
    h, c = Rows(values, moments), Rows(same, recompute=c.recompute)
    return norm_relu_linear(parts.norm, h, parts.second, norm_follows), c


class _GineLinear(torch.autograd.Function):
    r"""Autograd function: GINE's sums of messages, then the update network's Linear W.

    $$W \big((1 + \epsilon) c_i + \sum_{j \to i} \text{ReLU}(c_j + e_{ji})\big)$$

    Also returns `c`, to be read by later functions so that one kernel can add up all
    gradients of `c`, and the column statistics of the output. The backward pass
    recomputes the sums of messages.
    """

    @staticmethod
    def forward(
        ctx: Any,
        c: Tensor,
        e: Tensor,
        eps: Tensor,
        matrix: Tensor,
        edges: Edges,
        recompute: Recompute | None,
    ) -> tuple[Tensor, Tensor, Moments | None]:
        kernels = kernels_for(c)
        ctx.save_for_backward(e, eps, matrix, *to_save(c, recompute))
        ctx.edges, ctx.recompute = edges, recompute_function(recompute)
        real = current_real_rows().nodes
        summed = kernels.messages(c, e, eps, edges)
        h, moments = kernels.norm_linear(summed, None, matrix, None, real)
        return h, c, moments

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: Tensor, more: Tensor, _: None
    ) -> tuple[Tensor | None, ...]:
        e, eps, matrix, *saved = ctx.saved_tensors
        c, edges = saved_or_recomputed(saved, ctx.recompute), ctx.edges
        kernels = kernels_for(c)
        grad_matrix = grad.t() @ kernels.messages(c, e, eps, edges)
        grads = kernels.messages_backward(
            grad @ matrix.to(grad.dtype), c, e, eps, edges, more.contiguous()
        )
        return *grads, grad_matrix, None, None
