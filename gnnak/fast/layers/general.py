"""GNN-AK layers with any base GNN: fused messages, and fused gates and pools.

`layer.fused_encodings` is faster, but supports only the layers of the paper's networks,
in full precision and in one process. This module supports all other layers.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import GINEConv

from gnnak.fast.kernels import kernels_for, kernels_of_backward
from gnnak.fast.kernels.records import CentroidRows, Edges, GatedGrad, GatedSum
from gnnak.fast.layers.convs import can_run, edge_states, run_conv
from gnnak.fast.layers.gather import SMALL_HOP_TABLE
from gnnak.fast.layers.lift import edges_of, lift
from gnnak.fast.layers.lifted_gine import (
    Copies,
    gate_tables,
    hop_tables,
    hop_weights,
    lifted_gine_sum,
    lifted_gine_sum_and_gates,
    remember_gates,
)
from gnnak.fast.layers.rows import with_unit_stride
from gnnak.nn.calling import Inputs
from gnnak.nn.calling.masks import any_weight
from gnnak.nn.encodings import HopTable, scaled_to_all
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


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


def can_fuse_conv(
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | Inputs | None,
) -> bool:
    """Return whether `fused_embedding` can run the base GNN of a layer.

    Args:
        layer: The GNN-AK layer.
        x: States of the n nodes, [n, c].
        subgraphs: The rooted subgraphs.
        edge_attr: Edge states, weights or further arguments; None if there are none.
    """
    known = subgraphs.num_nodes is not None and subgraphs.num_edges is not None
    if not known or not subgraphs.num_copies or isinstance(edge_attr, Inputs):
        return False
    table = layer.hop_table
    if not _is_small(table) or layer.calling.keywords is not None:
        return False
    e, width, conv = edge_attr, x.size(1), layer.gnn
    if table is not None and layer.hop_linear is None:
        width += table.weight.size(1)
    if not torch.is_autocast_enabled(x.device.type):
        weight = any_weight(conv)
        dtype = x.dtype if weight is None else weight.dtype
        if x.dtype != dtype or (e is not None and e.dtype != dtype):
            return False
    return can_run(conv, e, width)


def fused_embedding(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, e: Tensor | None
) -> Tensor:
    """Compute `GNNAK.embed` without storing messages.

    With autocast, the states of node copies (nodes as they occur in one subgraph) have
    autocast's dtype, as the input of the conv's Linear has.

    Args:
        layer: A layer that `can_fuse_conv` accepts.
        x: States of the n nodes, [n, c].
        subgraphs: The rooted subgraphs.
        e: States of the edges, [e, c]; None if there are none.
    """
    kind, dtype = x.device.type, None
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    hop_table, conv = layer.hop_table, layer.gnn
    rows = subgraphs.hop if hop_table is None else hop_table.rows(subgraphs)
    add, edges = layer.hop_linear is not None, edges_of(subgraphs)
    if isinstance(conv, GINEConv):
        copies = Copies(subgraphs.node, rows, subgraphs.by("node"), add, dtype)
        given = (edge_states(conv, e), conv.eps, copies, edges)
        return layer.project(conv.nn(_gine_sum(layer, x, given)))
    c = lift(x, _embeddings(layer), rows, subgraphs, add, dtype)
    return layer.project(run_conv(conv, c, e, edges))


def _gine_sum(
    layer: GNNAK, x: Tensor, given: tuple[Tensor, Tensor, Copies, Edges]
) -> Tensor:
    """Compute `lifted_gine_sum` for a layer, together with its gates if possible.

    Args:
        layer: The layer.
        x: States of the n nodes, [n, c].
        given: The arguments of `lifted_gine_sum` after the table.
    """
    weights = hop_weights(layer, layer.hop_linear) if given[2].add else None
    if weights is None:
        return lifted_gine_sum(x, _embeddings(layer), *given)
    summed, gates = lifted_gine_sum_and_gates(x, weights, *given)
    remember_gates(layer, dict(zip(layer.gates, gates, strict=True)))
    return summed


def _embeddings(layer: GNNAK) -> Tensor | None:
    """Return the embeddings of distances that are added or appended to node states.

    None if the layer does not use distances.
    """
    if layer.hop_linear is not None:
        return hop_tables(layer).added
    return None if layer.hop_table is None else layer.hop_table.weight


def can_fuse_pools(layer: GNNAK, subgraphs: RootedSubgraphs) -> bool:
    """Return whether `pooled_encodings` can compute the encodings of a layer."""
    known = subgraphs.num_nodes is not None and subgraphs.num_copies > 0
    pools = any(name != "centroid" for name in layer.encodings)
    return known and pools and not layer.transforms and _is_small(layer.hop_table)


def _is_small(table: HopTable | None) -> bool:
    """Return whether kernels support the size of a hop table, if there is one."""
    return table is None or table.max_hops + 2 <= SMALL_HOP_TABLE


def pooled_encodings(
    layer: GNNAK, emb: Tensor, subgraphs: RootedSubgraphs, context_reduce: Reduce
) -> dict[Encoding, Tensor]:
    """Compute the encodings of a layer from the output of its base GNN.

    Args:
        layer: A layer that `can_fuse_pools` accepts.
        emb: Output of the base GNN, one row for each of the m node copies (nodes as
            they occur in one subgraph), [m, c].
        subgraphs: The rooted subgraphs.
        context_reduce: How the context encoding is pooled.
    """
    hops = layer.hop_table
    gates = gate_tables(layer)
    rows = subgraphs.hop if hops is None else hops.rows(subgraphs)
    pools: dict[Encoding, GatedPool] = {
        "subgraph": GatedPool(subgraphs.by("subgraph"), subgraphs.subgraph),
        "context": GatedPool(subgraphs.by("node"), subgraphs.node),
    }
    names: list[Encoding] = [name for name in layer.encodings if name != "centroid"]
    tables = [gates.get(name) for name in names]
    given = [pools[name] for name in names]
    sums, roots = gated_pools(emb, tables, rows, given, subgraphs)
    encodings: dict[Encoding, Tensor] = dict(zip(names, sums, strict=True))
    for name in names:
        reduce = context_reduce if name == "context" else layer.reduce
        if reduce == "mean":
            counts = pools[name].groups.ptr.diff().clamp(min=1)
            encodings[name] = encodings[name] / counts[:, None].to(emb.dtype)
        elif name == "context":
            encodings[name] = scaled_to_all(encodings[name], subgraphs)
    if "centroid" in gates:
        roots = roots * gates["centroid"][0].to(roots.dtype)
    encodings["centroid"] = roots
    return {name: encodings[name] for name in layer.encodings}
