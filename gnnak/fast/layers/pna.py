"""Fused PNA* convolution, a variant of PNA, on the nodes of all rooted subgraphs.

A message of PNA* is an MLP of [c_i, c_j, e_ij]: the states of the target node, the
source node and the edge. The fused version never concatenates the three states.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import Edges
from gnnak.fast.layers.norm import norm_relu_linear
from gnnak.fast.layers.parts import two_linears
from gnnak.fast.layers.rows import (
    Recompute,
    Rows,
    recompute_function,
    saved_or_recomputed,
    to_save,
)
from gnnak.nn.base.pna import PNAStarConv
from gnnak.nn.copies import lookup
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs


def fits_pna(conv: PNAStarConv, e: Tensor | None, subgraphs: RootedSubgraphs) -> bool:
    """Return whether `run_pna` can replace a PNA* conv on these inputs.

    The edge states must have the width that the conv expects (None for width 0), the
    MLPs of the conv must be fusable, and the norm of the messages needs two messages.
    """
    if e is None:
        fits_edges = conv.edge_channels == 0
    else:
        fits_edges = 0 < conv.edge_channels == e.size(1)
    parts = two_linears(conv.message) and two_linears(conv.update)
    return fits_edges and parts is not None and subgraphs.num_edge_copies > 1


def run_pna(
    conv: PNAStarConv, c: Rows, e: Tensor | None, edges: Edges, norm_follows: bool
) -> tuple[Rows, Rows]:
    """Apply a PNA* conv in every rooted subgraph; see `FusedConv.run`."""
    message, update = two_linears(conv.message), two_linears(conv.update)
    assert message is not None
    assert update is not None
    h = Rows(_PairLinear.apply(c.values, e, message.first.weight, edges, c.recompute))
    sent = norm_relu_linear(message.norm, h, message.second, norm_follows=False)
    pooled = _PnaPool.apply(sent.values, edges.by_target)
    degree = edges.by_target.ptr.diff().clamp_(max=conv.degree.num_embeddings - 1)
    of_degree = lookup(conv.degree.weight, degree).to(pooled.dtype)
    joined = torch.cat([c.values, pooled, of_degree], dim=1)
    h = Rows(linear(joined, update.first.weight.to(joined.dtype)))
    return norm_relu_linear(update.norm, h, update.second, norm_follows), c


class _PairLinear(torch.autograd.Function):
    r"""Autograd function: $W [c_i, c_j, e_{ij}]$ of every edge copy $j \to i$, [f, c'].

    It is the first Linear of the message MLP; `e` is None without edge states.
    """

    @staticmethod
    def forward(
        ctx: Any,
        c: Tensor,
        e: Tensor | None,
        matrix: Tensor,
        edges: Edges,
        recompute: Recompute | None,
    ) -> Tensor:
        ctx.save_for_backward(e, matrix, *to_save(c, recompute))
        ctx.edges, ctx.recompute = edges, recompute_function(recompute)
        for_target, for_source, for_edge = _split(matrix.to(c.dtype), c.size(1))
        return kernels_for(c).pair_sum(
            linear(c, for_target),
            linear(c, for_source),
            None if e is None else linear(e.to(c.dtype), for_edge),
            edges,
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        e, matrix, *saved = ctx.saved_tensors
        c = saved_or_recomputed(saved, ctx.recompute)
        edges, sum_by = ctx.edges, kernels_for(c).sum_by
        for_target, for_source, for_edge = _split(matrix.to(c.dtype), c.size(1))
        back = sum_by(grad, edges.by_target)
        grad_c, grad_matrix = back @ for_target, [back.t() @ c]
        back = sum_by(grad, edges.by_source)
        grad_c.addmm_(back, for_source)
        grad_matrix.append(back.t() @ c)
        grad_e = None
        if e is not None:
            back = sum_by(grad, edges.by_edge)
            grad_e = back @ for_edge
            grad_matrix.append(back.t() @ e.to(c.dtype))
        return grad_c, grad_e, torch.cat(grad_matrix, dim=1), None, None


def _split(matrix: Tensor, width: int) -> tuple[Tensor, ...]:
    """Split the columns of W into the parts for target, source and edge."""
    return matrix.tensor_split([width, 2 * width], dim=1)


class _PnaPool(torch.autograd.Function):
    """Autograd function: mean, minimum, maximum and standard deviation of messages."""

    @staticmethod
    def forward(ctx: Any, message: Tensor, groups: Groups) -> Tensor:
        pooled = kernels_for(message).pna_pool(message, groups)
        ctx.save_for_backward(message, pooled)
        ctx.groups = groups
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        message, pooled = ctx.saved_tensors
        kernels = kernels_for(message)
        return kernels.pna_pool_backward(grad, message, pooled, ctx.groups), None
