"""From a record of rooted subgraphs to what the fused convs are handed."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import Edges
from gnnak.fast.layers.rows import Once, Recompute, Rows
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs


def edges_of(subgraphs: RootedSubgraphs) -> Edges:
    """The edge copies of a record, grouped in the three ways that sums need."""
    source, target = subgraphs.edge_index
    return Edges(
        source,
        target,
        subgraphs.edge,
        subgraphs.by("target"),
        subgraphs.by("source"),
        subgraphs.by("edge"),
    )


def lift(
    x: Tensor, table: Tensor | None, rows: Tensor, subgraphs: RootedSubgraphs
) -> Rows:
    """Every copy's node state and table row side by side, [m, c + h].

    They are not kept: there are far fewer nodes than copies of them. In the backward
    pass they are made once, and last until the gradient comes here.
    """
    node = subgraphs.node
    once = Once(lambda x, table: kernels_for(x).lift(x, table, node, rows))
    values = _Lift.apply(x, table, node, rows, subgraphs.by("node"), once)
    once.holds = values.requires_grad
    return Rows(values, again=Recompute(once, (x, table)))


class _Lift(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        table: Tensor | None,
        node: Tensor,
        rows: Tensor,
        by_node: Groups,
        once: Once,
    ) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.by_node, ctx.width, ctx.once = by_node, x.size(1), once
        ctx.size = None if table is None else table.size(0)
        return kernels_for(x).lift(x, table, node, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        ctx.once.release()
        kernels = kernels_for(grad)
        grad_x = kernels.sum_by(grad[:, : ctx.width], ctx.by_node)
        grad_table = None
        if ctx.size is not None:
            grad_table = kernels.table_sum(grad[:, ctx.width :], rows, ctx.size)
        return grad_x, grad_table, None, None, None, None
