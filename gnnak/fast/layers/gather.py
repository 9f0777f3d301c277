"""Gathers and segment sums without atomic additions, with deterministic results."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from gnnak.fast.kernels import kernels_for, kernels_of_backward
from gnnak.fast.layers.parts import REDUCES, Serves, implements, with_unit_stride
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce

SMALL_TABLE = 256
"""Largest number of rows of a table whose gradient is summed without atomics."""


@implements("lookup")
def lookup_rows(serves: Serves, table: Tensor, index: Tensor) -> Tensor:
    """Return `table[index]` for a small table, without atomics in the backward pass."""
    if table.size(0) > SMALL_TABLE or not serves(table):
        return NotImplemented
    return _Lookup.apply(table, index)


@implements("embed_rows")
def embedded_rows(serves: Serves, table: Tensor, index: Tensor) -> Tensor:
    if table.size(0) > SMALL_TABLE or not serves(table):
        return NotImplemented
    return _Embedding.apply(table, index)


@implements("lift")
def lift_nodes(serves: Serves, x: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    if not serves(x) or subgraphs.num_nodes is None:
        return NotImplemented
    return _Gather.apply(x, subgraphs.node, subgraphs.by("node"))


@implements("lift_edges")
def lift_edges(serves: Serves, e: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    if e.dim() != 2 or not serves(e) or subgraphs.num_edges is None:
        return NotImplemented
    if e.stride(0) == 0:  # All rows are the same.
        return e[:1].expand(subgraphs.num_edge_copies, -1)
    return _Gather.apply(e, subgraphs.edge, subgraphs.by("edge"))


@implements("pool_subgraph")
def pool_subgraph(
    serves: Serves, z: Tensor, subgraphs: RootedSubgraphs, reduce: Reduce
) -> Tensor:
    """Sum or average the states of the node copies of each subgraph, [s, c]."""
    if not serves(z) or reduce not in REDUCES:
        return NotImplemented
    return _pooled(z, subgraphs.subgraph, subgraphs.by("subgraph"), reduce)


@implements("pool_context")
def pool_context(
    serves: Serves,
    z: Tensor,
    subgraphs: RootedSubgraphs,
    num_nodes: int,
    reduce: Reduce,
) -> Tensor:
    """Sum or average the states of the node copies of each node, [n, c]."""
    if not serves(z) or reduce not in REDUCES or subgraphs.num_nodes != num_nodes:
        return NotImplemented
    return _pooled(z, subgraphs.node, subgraphs.by("node"), reduce)


def _pooled(z: Tensor, index: Tensor, groups: Groups, reduce: Reduce) -> Tensor:
    pooled = _Sum.apply(z, index, groups)
    return mean_of(pooled, groups) if reduce == "mean" else pooled


def mean_of(sums: Tensor, groups: Groups) -> Tensor:
    """Divide the sum of each group by its number of rows; an empty group stays 0."""
    return sums / groups.ptr.diff().clamp(min=1)[:, None]


class _Gather(torch.autograd.Function):
    """Autograd function of `values[index]`; output row i is in group `index[i]`."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, groups: Groups) -> Tensor:
        ctx.index, ctx.groups = index, groups
        return values.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Sum.apply(grad, ctx.index, ctx.groups), None, None


class _Sum(torch.autograd.Function):
    """Autograd function: sum the rows of each group; row i is in group `index[i]`."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, groups: Groups) -> Tensor:
        ctx.index, ctx.groups = index, groups
        return kernels_for(values).sum_by(values.contiguous(), groups)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Gather.apply(grad, ctx.index, ctx.groups), None, None


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.size = table.size(0)
        return embedding(index, table)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        rows = grad.reshape(-1, grad.size(-1)).contiguous()
        index = index.reshape(-1).contiguous()
        return kernels_of_backward(rows).table_sum(rows, index, ctx.size), None


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        index = index.contiguous()
        ctx.save_for_backward(index)
        ctx.size = table.size(0)
        return kernels_for(table).lift(table, None, index, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        kernels = kernels_of_backward(grad)
        return kernels.table_sum(grad.contiguous(), index, ctx.size), None


@implements("fill_dropped")
def fill_encodings(
    serves: Serves,
    encodings: dict[Encoding, Tensor],
    subgraphs: SampledSubgraphs,
    num_nodes: int,
) -> dict[Encoding, Tensor]:
    if not all(map(serves, encodings.values())):
        return NotImplemented
    return {name: fused_fill(h, subgraphs) for name, h in encodings.items()}


def fused_fill(values: Tensor, subgraphs: SampledSubgraphs) -> Tensor:
    """Multiply the sparse matrix `subgraphs.filling`, [n, s], by `values`, [s, c]."""
    filling = subgraphs.filling
    root, node = filling.subgraph, filling.node
    by_node, by_root = subgraphs.by("taker"), subgraphs.by("giver")
    return _Fill.apply(values, root, by_node, node, by_root, filling.weight)


class _Fill(torch.autograd.Function):
    """Autograd function: the matrix `filling` times `values`; differentiable twice."""

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        column: Tensor,
        by_row: Groups,
        row: Tensor,
        by_column: Groups,
        weight: Tensor,
    ) -> Tensor:
        ctx.transposed = (row, by_column, column, by_row, weight)
        values, kernels = with_unit_stride(values), kernels_for(values)
        return kernels.sum_by(values, by_row, None, (column, weight))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _Fill.apply(grad, *ctx.transposed), *[None] * 5
