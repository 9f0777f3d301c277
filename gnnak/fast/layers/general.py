"""GNN-AK layers with any base GNN: fused messages, and fused gates and pools."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GINEConv

from gnnak.fast.kernels import kernels_for, kernels_of_backward
from gnnak.fast.kernels.records import CentroidRows, GatedPool
from gnnak.fast.layers.convs import can_run, edge_states, has_dtype_of, run_conv
from gnnak.fast.layers.gather import mean_of
from gnnak.fast.layers.lift import distinct_rows, edges_of, lift
from gnnak.fast.layers.lifted_gine import (
    Copies,
    gate_tables,
    hop_tables,
    hop_weights,
    lifted_gine_sum,
    remember_gates,
)
from gnnak.fast.layers.parts import REDUCES, Serves, autocast_dtype, implements
from gnnak.fast.layers.ppgn import can_share_pairs, embedding_on_pairs
from gnnak.fast.layers.rows import with_unit_stride
from gnnak.nn.calling import Inputs
from gnnak.nn.encodings import HopTable, scaled_to_all
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import Axis, RootedSubgraphs
from gnnak.typing import Encoding, Reduce

SMALL_HOP_TABLE = 128
"""Largest number of rows of a hop table (one per distance) in fused layers."""
POOL_BY: dict[Encoding, Axis] = {"subgraph": "subgraph", "context": "node"}
"""Whether a pooled encoding sums node copies by subgraph or by node."""


def gated_pools(
    states: Tensor,
    tables: Sequence[Tensor | None],
    rows: Tensor,
    pools: Sequence[GatedPool],
    subgraphs: RootedSubgraphs,
) -> tuple[list[Tensor], Tensor]:
    """Multiply states by gates and sum them by group, for one or two groupings.

    Also returns the states of the roots, [s, c], so that a single backward pass handles
    all results and reads the states only once.
    """
    pools = [GatedPool(pool.groups, pool.key.contiguous()) for pool in pools]
    rows, states = rows.contiguous(), states.contiguous()
    tables = [None if table is None else table.contiguous() for table in tables]
    *sums, centroids = _GatedPools.apply(states, rows, pools, subgraphs, *tables)
    return sums, centroids


class _GatedPools(torch.autograd.Function):
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
        summed = kernels.gated_sums(states, tables, pools, rows)
        return *summed, states.index_select(0, centroid)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        states, rows, centroid, subgraph, *tables = ctx.saved_tensors
        *of_sums, of_centroids = map(with_unit_stride, grads)
        centroids = CentroidRows(of_centroids, centroid, subgraph)
        grad_states, of_tables = kernels_of_backward(states).gated_sums_backward(
            states, of_sums, tables, ctx.pools, rows, centroids
        )
        return grad_states, None, None, None, *of_tables


@implements("embed")
def fused_embedding(
    serves: Serves,
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | Inputs | None,
) -> Tensor:
    """Compute the result of `GNNAK.embed`, [m, c], without storing messages."""
    if not serves(x) or isinstance(edge_attr, Inputs):
        return NotImplemented
    if can_share_pairs(layer):
        return embedding_on_pairs(layer, x, subgraphs, edge_attr)
    if not _can_fuse_conv(layer, x, subgraphs, edge_attr):
        return NotImplemented
    dtype = autocast_dtype(x)
    edge_attr = distinct_rows(edge_attr)
    rows, edges = hop_rows(layer, subgraphs), edges_of(subgraphs, edge_attr)
    add, conv = layer.hop_linear is not None, layer.gnn
    if not isinstance(conv, GINEConv):
        c = lift(x, _embeddings(layer), rows, subgraphs, add, dtype)
        return layer.project(run_conv(conv, c, edge_attr, edges))
    e, eps = edge_states(conv, edge_attr), conv.eps
    copies = Copies(subgraphs.node, rows, subgraphs.by("node"), add, dtype)
    weights = hop_weights(layer, layer.hop_linear) if add else None
    table, linears = weights or (_embeddings(layer), None)
    summed, gates = lifted_gine_sum(x, table, e, eps, copies, edges, linears)
    if linears is not None:
        remember_gates(layer, dict(zip(layer.gates, gates, strict=True)))
    return layer.project(conv.nn(summed))


def _can_fuse_conv(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, e: Tensor | None
) -> bool:
    known = subgraphs.num_nodes is not None and subgraphs.num_edges is not None
    if not known or not subgraphs.num_copies:
        return False
    table = layer.hop_table
    if not is_small(table) or layer.calling.keywords is not None:
        return False
    width, conv = x.size(1), layer.gnn
    if table is not None and layer.hop_linear is None:
        width += table.weight.size(1)
    return has_dtype_of(conv, x, e) and can_run(conv, e, width)


def hop_rows(layer: GNNAK, subgraphs: RootedSubgraphs) -> Tensor:
    """Return which row of the hop table each node copy uses, [m]."""
    table = layer.hop_table
    return subgraphs.hop if table is None else table.rows(subgraphs)


def _embeddings(layer: GNNAK) -> Tensor | None:
    """Return the distance embeddings to add or append to node states, or None."""
    if layer.hop_linear is not None:
        return hop_tables(layer).added
    return None if layer.hop_table is None else layer.hop_table.weight


def is_small(table: HopTable | None) -> bool:
    return table is None or len(table.weight) <= SMALL_HOP_TABLE


def can_fuse_pools(
    layer: GNNAK, subgraphs: RootedSubgraphs, context_reduce: Reduce
) -> bool:
    known = subgraphs.num_nodes is not None and subgraphs.num_copies > 0
    pools = any(name != "centroid" for name in layer.encodings)
    reduces = {layer.reduce, context_reduce} <= set(REDUCES)
    fits = reduces and not layer.transforms and is_small(layer.hop_table)
    return known and pools and fits


def pooled_encodings(
    layer: GNNAK, emb: Tensor, subgraphs: RootedSubgraphs, context_reduce: Reduce
) -> dict[Encoding, Tensor]:
    """Compute the encodings of a layer from the output of its base GNN, [m, c]."""
    gates, rows = gate_tables(layer), hop_rows(layer, subgraphs)
    pools: dict[Encoding, GatedPool] = {
        "subgraph": GatedPool(subgraphs.by("subgraph"), subgraphs.subgraph),
        "context": GatedPool(subgraphs.by("node"), subgraphs.node),
    }
    names: list[Encoding] = [name for name in layer.encodings if name != "centroid"]
    tables, used = [gates.get(name) for name in names], [pools[name] for name in names]
    sums, roots = gated_pools(emb, tables, rows, used, subgraphs)
    encodings: dict[Encoding, Tensor] = dict(zip(names, sums, strict=True))
    if "centroid" in gates:
        roots = roots * gates["centroid"][0].to(roots.dtype)
    encodings["centroid"] = roots
    return reduced(layer, encodings, subgraphs, context_reduce)


def reduced(
    layer: GNNAK,
    sums: dict[Encoding, Tensor],
    subgraphs: RootedSubgraphs,
    context_reduce: Reduce,
) -> dict[Encoding, Tensor]:
    """Turn sums into encodings: compute means, or correct sums for SubgraphDrop."""
    encodings = {name: sums[name] for name in layer.encodings}
    for name, axis in POOL_BY.items():
        reduce = context_reduce if name == "context" else layer.reduce
        if name in encodings and reduce == "mean":
            encodings[name] = mean_of(encodings[name], subgraphs.by(axis))
        elif name in encodings and name == "context":
            encodings[name] = scaled_to_all(encodings[name], subgraphs)
    return encodings
