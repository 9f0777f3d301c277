"""The message and the first product of GINE, without a row for every edge copy."""

from typing import Any

import torch
from torch import Tensor

from gnnak.nn.fused.norm import affine
from gnnak.nn.kernels import kernels_for
from gnnak.nn.kernels.records import Edges
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs


def edges_of(subgraphs: RootedSubgraphs) -> Edges:
    """The edge copies of a record, grouped in the three ways that sums need."""
    source, target = subgraphs.edge_index
    by = [subgraphs.by(axis) for axis in ("target", "source", "edge")]
    return Edges(source, target, subgraphs.edge, *by)


def lift(x: Tensor, table: Tensor | None, rows: Tensor, subgraphs: RootedSubgraphs):
    """Every copy's node state and table row side by side, [m, c + h]."""
    return _Lift.apply(x, table, subgraphs.node, rows, subgraphs.by("node"))


def gine_linear(
    c: Tensor, e: Tensor, eps: Tensor, matrix: Tensor, edges: Edges
) -> Tensor:
    r"""$W \big((1 + \epsilon) c_i + \sum_{j \to i} \text{ReLU}(c_j + e_{ji})\big)$.

    Args:
        c: States of the copies, [m, w].
        e: States of the edges, [e, w].
        eps: A number, [1].
        matrix: W, [c', w].
        edges: The edge copies.
    """
    return _GineLinear.apply(c, e, eps, matrix, edges)


class _Lift(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        table: Tensor | None,
        node: Tensor,
        rows: Tensor,
        by_node: Groups,
    ) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.by_node, ctx.width = by_node, x.size(1)
        ctx.size = None if table is None else table.size(0)
        return kernels_for(x).lift(x, table, node, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        kernels = kernels_for(grad)
        grad_x = kernels.sum_by(grad[:, : ctx.width], ctx.by_node)
        grad_table = None
        if ctx.size is not None:
            grad_table = kernels.table_sum(grad[:, ctx.width :], rows, ctx.size)
        return grad_x, grad_table, None, None, None


class _GineLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, c: Tensor, e: Tensor, eps: Tensor, matrix: Tensor, edges: Edges
    ) -> Tensor:
        ctx.save_for_backward(c, e, eps, matrix)
        ctx.edges = edges
        return affine(kernels_for(c).messages(c, e, eps, edges), matrix, None)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, e, eps, matrix = ctx.saved_tensors
        kernels = kernels_for(c)
        grad_matrix = grad.t() @ kernels.messages(c, e, eps, ctx.edges)
        back = kernels.messages_backward(grad @ matrix, c, e, eps, ctx.edges)
        return *back, grad_matrix, None
