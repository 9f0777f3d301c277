"""Compute the inputs of the fused convs: states of node copies, and edge copies."""

from typing import Any

import torch
from torch import Tensor

from gnnak.fast.kernels import kernels_of_backward
from gnnak.fast.kernels.records import Edges
from gnnak.fast.layers.rows import CachedRecompute, Recompute, Rows, with_unit_stride
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import Axis, RootedSubgraphs


def distinct_rows(e: Tensor | None) -> Tensor | None:
    """Return edge states; if `e` is one expanded row, return only this row, [1, w]."""
    return e if e is None or e.dim() < 2 or e.stride(0) != 0 else e[:1]


def edges_of(subgraphs: RootedSubgraphs, e: Tensor | None) -> Edges:
    """Return the edge copies as `Edges`; group by edge if `e` has a row per edge."""
    with_edge = e is not None and e.size(0) != 1

    def find() -> Edges:
        # Layers that need edge copies also need the node copies grouped by node.
        by_node: list[Axis] = ["node"] if subgraphs.num_nodes is not None else []
        by_edge: list[Axis] = ["edge"] if with_edge else []
        subgraphs.group_by([*by_node, "target", "source", *by_edge])
        (source, target), by = subgraphs.edge_index, subgraphs.by
        groups = by("target"), by("source"), by("edge") if with_edge else None
        return Edges(source, target, subgraphs.edge, *groups)

    return subgraphs.once(Edges, find, with_edge, saved=False)


def lift(
    x: Tensor,
    table: Tensor | None,
    rows: Tensor,
    subgraphs: RootedSubgraphs,
    add: bool = False,
    dtype: torch.dtype | None = None,
) -> Rows:
    """Return the input states of all node copies, [m, c + h], or [m, c] if `add`.

    The state of node copy i is the state of its node, followed by row `rows[i]` of
    `table`, [t, h]. If `add`, the two are added instead. The backward pass recomputes
    these states.
    """
    node = subgraphs.node

    def gather(x: Tensor, table: Tensor | None) -> Tensor:
        # The forward pass runs `gather` in `_Lift`, where autograd is off, so that this
        # returns the fast kernels. A backward pass with `create_graph=True` needs
        # kernels that autograd can differentiate.
        return kernels_of_backward(x).lift(x, table, node, rows, add, dtype)

    cached = CachedRecompute(gather)
    values = _Lift.apply(x, table, rows, subgraphs.by("node"), cached, add)
    # Only the backward pass of `_Lift` clears the cache, so cache only if it will run.
    cached.caches = values.requires_grad
    return Rows(values, recompute=Recompute(cached, (x, table)))


class _Lift(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        table: Tensor | None,
        rows: Tensor,
        by_node: Groups,
        cached: CachedRecompute,
        add: bool,
    ) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.by_node, ctx.width, ctx.cached = by_node, x.size(1), cached
        ctx.begin = 0 if add else x.size(1)
        ctx.size = None if table is None else table.size(0)
        ctx.dtypes = x.dtype, None if table is None else table.dtype
        return cached.function(x, table)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        ctx.cached.release()
        kernels, grad = kernels_of_backward(grad), with_unit_stride(grad)
        of_x, of_table = ctx.dtypes
        grad_x = kernels.sum_by(grad[:, : ctx.width], ctx.by_node, of_x)
        grad_table = None
        if ctx.size is not None:
            tail = grad[:, ctx.begin :]
            grad_table = kernels.table_sum(tail, rows, ctx.size, of_table)
        return grad_x, grad_table, None, None, None, None
