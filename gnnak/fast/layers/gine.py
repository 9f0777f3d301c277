"""Fused GINE on rooted subgraphs: the messages are never stored.

A node copy is a node as it occurs in one rooted subgraph; an edge copy is an edge as it
occurs in one rooted subgraph. A tensor of messages would have a row per edge copy.
"""

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

    This is the case if `conv` has an update network of Linear, norm, ReLU and Linear
    and a learned epsilon, and if there are edge states `e` as wide as the node states.
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
    """Apply a GINE conv in every rooted subgraph.

    Args:
        conv: The conv.
        c: States of the m node copies (nodes as they occur in one subgraph), [m, w].
        e: States of the edges of the graph; must not be None.
        edges: The edges of all rooted subgraphs.
        norm_follows: Whether the output goes into a norm with batch statistics. The
            bias of the last Linear then has the gradient zero.

    Returns:
        The conv's output, one row per node copy, and a tensor equal to `c`. Later
        functions should read this tensor instead of `c`, so that one kernel can add up
        all gradients of `c`.
    """
    parts = two_linears(conv.nn)
    assert parts is not None
    assert e is not None
    h, c = gine_linear(c, e, conv.eps, parts.first.weight, edges)
    return norm_relu_linear(parts.norm, h, parts.second, norm_follows), c


def gine_linear(
    c: Rows, e: Tensor, eps: Tensor, matrix: Tensor, edges: Edges
) -> tuple[Rows, Rows]:
    r"""Compute GINE's sums of messages, then the first Linear of the update network.

    The result for node copy $i$ (a node as it occurs in one rooted subgraph) is

    $$W \big((1 + \epsilon) c_i + \sum_{j \to i} \text{ReLU}(c_j + e_{ji})\big)$$

    Args:
        c: States of the m node copies, [m, w].
        e: States of the e edges of the graph, [e, w].
        eps: GINE's learned scalar, [1].
        matrix: W, the weight of the first Linear, [c', w].
        edges: The edges of all rooted subgraphs.

    Returns:
        The output of the first Linear, [m, c'], and a tensor equal to c. Later
        functions should read this tensor instead of c, so that one kernel can add up
        all gradients of c.
    """
    arguments = (c.values, e, eps, matrix, edges, c.recompute)
    values, same, moments = _GineLinear.apply(*arguments)
    return Rows(values, moments), Rows(same, recompute=c.recompute)


class _GineLinear(torch.autograd.Function):
    """Autograd function of `gine_linear`: GINE's sums of messages, then a Linear.

    The function also returns the column statistics of the Linear's output. The backward
    pass recomputes the sums of messages.
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
        c = saved_or_recomputed(saved, ctx.recompute)
        kernels = kernels_for(c)
        arguments = (c, e, eps, ctx.edges)
        grad_matrix = grad.t() @ kernels.messages(*arguments)
        grads = kernels.messages_backward(grad @ matrix, *arguments, more.contiguous())
        return *grads, grad_matrix, None, None
