"""Gates and pools of GNN-AK layers without MLPs: the gated states are never stored."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnnak.fast.kernels import kernels_for, kernels_of_backward
from gnnak.fast.kernels.records import CentroidRows, GatedGrad, GatedSum
from gnnak.fast.layers.rows import with_unit_stride
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs


class GatedPool(NamedTuple):
    """A grouping of node copies (nodes as they occur in one rooted subgraph)."""

    groups: Groups
    """The node copies of each group."""
    key: Tensor
    """[m]: the group of each of the m node copies."""


def gated_pools(
    states: Tensor,
    tables: Sequence[Tensor | None],
    rows: Tensor,
    pools: Sequence[GatedPool],
    subgraphs: RootedSubgraphs,
) -> tuple[list[Tensor], Tensor]:
    """Multiply states by gates and sum them by group, for one or two groupings.

    Also return the states of the roots. One autograd function for all of these results
    needs only one pass over the states in the backward pass.

    Args:
        states: One row for each of the m node copies (nodes as they occur in one
            rooted subgraph), [m, c].
        tables: For each grouping, the gates of t distances to the root, [t, c]; None =
            no gates.
        rows: For each node copy, its row of the tables, [m].
        pools: The groupings, for example by subgraph and by node.
        subgraphs: The rooted subgraphs.

    Returns:
        For each grouping, the sums, with one row per group; and the states of the s
        roots in their own subgraphs, [s, c].
    """
    pools = [GatedPool(pool.groups, pool.key.contiguous()) for pool in pools]
    rows, states = rows.contiguous(), states.contiguous()
    tables = [None if table is None else table.contiguous() for table in tables]
    *sums, centroids = _GatedPools.apply(states, rows, pools, subgraphs, *tables)
    return sums, centroids


class _GatedPools(torch.autograd.Function):
    """Autograd function of `gated_pools`."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        rows: Tensor,
        pools: Sequence[GatedPool],
        subgraphs: RootedSubgraphs,
        *tables: Tensor | None,
    ) -> tuple[Tensor, ...]:
        kernels = kernels_for(states)
        centroid = subgraphs.centroid.contiguous()
        subgraph = subgraphs.subgraph.contiguous()
        ctx.save_for_backward(states, rows, centroid, subgraph, *tables)
        ctx.pools = pools
        given = zip(tables, pools, strict=True)
        sums = [GatedSum(table, pool.groups) for table, pool in given]
        summed = kernels.gated_sums(states, sums, rows)
        return *summed, states.index_select(0, centroid)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        states, rows, centroid, subgraph, *tables = ctx.saved_tensors
        *of_sums, of_centroids = map(with_unit_stride, grads)
        given = zip(of_sums, tables, ctx.pools, strict=True)
        sums = [GatedGrad(grad, table, pool.key) for grad, table, pool in given]
        centroids = CentroidRows(of_centroids, centroid, subgraph)
        kernels = kernels_of_backward(states)
        found = kernels.gated_sums_backward(states, sums, rows, centroids)
        return found[0], None, None, None, *found[1]
