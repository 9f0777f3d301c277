"""GINE's sums on rooted subgraphs, from node states: a single autograd function.

A node copy is a node as it occurs in one rooted subgraph. The states of node copies are
computed, used, and not stored; the backward pass computes them again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnnak.fast.kernels import kernels_for, kernels_of_backward
from gnnak.fast.kernels.records import Edges, EdgeStates
from gnnak.subgraphs.groups import Groups


class Copies(NamedTuple):
    """How the states of node copies (nodes as they occur in one subgraph) are computed.

    The state of a node copy is that of its node, combined with an embedding of the
    distance to the root.
    """

    node: Tensor
    """[m]: the node of each of the m node copies."""
    rows: Tensor
    """[m]: for each node copy, its row of the table of embeddings."""
    by_node: Groups
    """The node copies of each node."""
    add: bool
    """Whether the embedding is added to the state of the node, and not appended."""
    dtype: torch.dtype | None
    """Data type of the states; None = that of the states of nodes."""


def lifted_gine_sum(
    x: Tensor,
    table: Tensor | None,
    e: Tensor,
    eps: Tensor,
    copies: Copies,
    edges: Edges,
) -> Tensor:
    r"""Sum GINE's messages at each of the m node copies of all rooted subgraphs.

    A node copy is a node as it occurs in one rooted subgraph. The result, [m, w], for
    node copy $i$ with state $c_i$ is

    $$(1 + \epsilon) c_i + \sum_{j \to i} \text{ReLU}(c_j + e_{ji})$$

    Args:
        x: States of the n nodes, [n, c].
        table: Embeddings of t distances to the root, [t, h]; None = the state of a node
            copy is that of its node.
        e: States of the edges of the graph, [e, w].
        eps: GINE's scalar, [1].
        copies: How states of node copies are computed from `x` and `table`.
        edges: The edges between node copies.
    """
    return _LiftedGineSum.apply(x, table, e, eps, copies, edges)


class _LiftedGineSum(torch.autograd.Function):
    """Autograd function of `lifted_gine_sum`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        table: Tensor | None,
        e: Tensor,
        eps: Tensor,
        copies: Copies,
        edges: Edges,
    ) -> Tensor:
        ctx.save_for_backward(x, table, e, eps)
        ctx.copies, ctx.edges = copies, edges
        kernels, (node, rows, _, add, dtype) = kernels_for(x), copies
        c = kernels.lift(x, table, node, rows, add, dtype)
        return kernels.messages(c, EdgeStates(e), eps, edges)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, table, e, eps = ctx.saved_tensors
        node, rows, by_node, add, dtype = ctx.copies
        kernels = kernels_of_backward(x)
        c = kernels.lift(x, table, node, rows, add, dtype)
        given = (grad.contiguous(), c, EdgeStates(e), eps, ctx.edges, None)
        learned = ctx.needs_input_grad[3]
        grad_c, grad_e, grad_eps = kernels.messages_backward(*given, with_eps=learned)
        grad_x, grad_table, width = None, None, x.size(1)
        if ctx.needs_input_grad[0]:
            grad_x = kernels.sum_by(grad_c[:, :width], by_node, x.dtype)
        if ctx.needs_input_grad[1]:
            of_table = grad_c if add else grad_c[:, width:]
            grad_table = kernels.table_sum(of_table, rows, len(table), table.dtype)
        return grad_x, grad_table, grad_e, grad_eps, None, None
