"""Fused PNA* convolution, a variant of PNA, on the nodes of all rooted subgraphs.

A message of PNA* is an MLP of [c_i, c_j, e_ij]: the states of the target node, the
source node and the edge. There is one message per edge copy (an edge as it occurs in
one rooted subgraph). The fused version never concatenates the three states.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import Edges, EdgeStates
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


def fits_pna(
    conv: PNAStarConv, e: EdgeStates | None, subgraphs: RootedSubgraphs
) -> bool:
    """Return whether `run_pna` can replace a PNA* conv on these inputs.

    It can if the edge states `e` have the width that the conv expects (`e` is None for
    width 0), if the MLPs of the conv can be fused, and if there are at least two
    messages, because the batch norm of the messages needs two rows.
    """
    if e is None:
        fits_edges = conv.edge_channels == 0
    else:
        fits_edges = 0 < conv.edge_channels == e.values.size(1)
    parts = two_linears(conv.message) and two_linears(conv.update)
    return fits_edges and parts is not None and subgraphs.num_edge_copies > 1


def run_pna(
    conv: PNAStarConv, c: Rows, e: EdgeStates | None, edges: Edges, norm_follows: bool
) -> tuple[Rows, Rows]:
    """Apply a PNA* conv with fused kernels to the nodes of all rooted subgraphs.

    Arguments and results are those of `FusedConv.run`.
    """
    message, update = two_linears(conv.message), two_linears(conv.update)
    assert message is not None
    assert update is not None
    states = None if e is None else e.rows()
    h = Rows(pair_linear(c, states, message.first.weight, edges))
    sent = norm_relu_linear(message.norm, h, message.second, norm_follows=False)
    pooled = _PnaPool.apply(sent.values, edges.by_target)
    degree = edges.by_target.ptr.diff().clamp_(max=conv.degree.num_embeddings - 1)
    blocks = [c.values, pooled, lookup(conv.degree.weight, degree)]
    h = Rows(linear(torch.cat(blocks, dim=1), update.first.weight))
    return norm_relu_linear(update.norm, h, update.second, norm_follows), c


def pair_linear(c: Rows, e: Tensor | None, matrix: Tensor, edges: Edges) -> Tensor:
    r"""Apply the first Linear of the message MLP of PNA*, $W [c_i, c_j, e_{ij}]$.

    There is one message for every edge copy $j \to i$ (an edge as it occurs in one
    rooted subgraph).

    Args:
        c: States of the m node copies (nodes as they occur in one subgraph), [m, w].
        e: States of the e edges of the graph, [e, w']; None = no edge states.
        matrix: W, the weight of the Linear, [c', 2w + w'].
        edges: Source, target and edge of each of the f edge copies.

    Returns:
        The output of the Linear for each message, [f, c'].
    """
    return _PairLinear.apply(c.values, e, matrix, edges, c.recompute)


class _PairLinear(torch.autograd.Function):
    """Autograd function of `pair_linear`: the first Linear of the message MLP.

    It saves the node states for backward, or the tensors from which `recompute`
    recomputes the node states.
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
        for_target, for_source, for_edge = _split(matrix, c.size(1))
        return kernels_for(c).pair_sum(
            linear(c, for_target),
            linear(c, for_source),
            None if e is None else linear(e, for_edge),
            edges,
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        e, matrix, *saved = ctx.saved_tensors
        c = saved_or_recomputed(saved, ctx.recompute)
        edges, sum_by = ctx.edges, kernels_for(c).sum_by
        for_target, for_source, for_edge = _split(matrix, c.size(1))
        back = sum_by(grad, edges.by_target)
        grad_c, grad_matrix = back @ for_target, [back.t() @ c]
        back = sum_by(grad, edges.by_source)
        grad_c.addmm_(back, for_source)
        grad_matrix.append(back.t() @ c)
        grad_e = None
        if e is not None:
            back = sum_by(grad, edges.by_edge)
            grad_e = back @ for_edge
            grad_matrix.append(back.t() @ e)
        return grad_c, grad_e, torch.cat(grad_matrix, dim=1), None, None


class _PnaPool(torch.autograd.Function):
    """Autograd function: mean, minimum, maximum and standard deviation of messages.

    `message` has one row per message. `groups` says which rows have the same target and
    are pooled together.
    """

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


def _split(matrix: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Split a weight matrix by columns into parts for target, source and edge.

    Args:
        matrix: The weight of a Linear whose input is the concatenation of the states of
            the target node, the source node and the edge.
        width: Width of the state of a node.
    """
    return matrix[:, :width], matrix[:, width : 2 * width], matrix[:, 2 * width :]
