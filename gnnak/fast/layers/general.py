"""GNN-AK layers with any base GNN: fused messages, and fused gates and pools.

`layer.fused_encodings` is faster, but supports only the layers of the paper's networks,
in full precision and in one process. This module supports all other layers: those of
`gnnak.uplift`, and those of users who build `GNNAK` with its defaults. Messages are
fused for the convs in `convs.RUNNERS`, gates and pools for every base GNN.
"""

import torch
from torch import Tensor
from torch_geometric.nn import GINEConv

from gnnak.fast.kernels.records import Edges
from gnnak.fast.layers.convs import can_run, edge_states, run_conv
from gnnak.fast.layers.gated import GatedPool, gated_pools
from gnnak.fast.layers.gather import SMALL_HOP_TABLE
from gnnak.fast.layers.hop_tables import (
    gate_tables,
    hop_tables,
    hop_weights,
    remember_gates,
)
from gnnak.fast.layers.lift import edges_of, lift
from gnnak.fast.layers.lifted_gine import (
    Copies,
    lifted_gine_sum,
    lifted_gine_sum_and_gates,
)
from gnnak.nn.calling import Inputs
from gnnak.nn.calling.masks import any_weight
from gnnak.nn.encodings import HopTable, scaled_to_all
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


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
