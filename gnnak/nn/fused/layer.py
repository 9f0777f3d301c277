"""A whole GNN-AK layer around GINE, from node states to encodings.

The same values as `GNNAK.encodings_of` on its general path, to rounding: what depends
on a hop alone is a table, both transforms before pooling are one product (the Linear
before them multiplied in), and no tensor has a row for every edge copy.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv

from gnnak.nn.encodings import scaled_up
from gnnak.nn.fused.message import edges_of, gine_linear, lift
from gnnak.nn.fused.norm import affine, norm_relu_add, norm_relu_linear
from gnnak.nn.fused.pool import Pool, gate_pools, norm_add_linear
from gnnak.nn.kernels import has_fast_kernels
from gnnak.nn.norm import BatchNorm, several_processes
from gnnak.nn.stack import Stack
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce

if TYPE_CHECKING:
    from gnnak.nn.uplift import GNNAK


def can_fuse(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | None
) -> bool:
    """Whether this layer, on these inputs, has a fused path."""
    if not has_fast_kernels(x) or several_processes() or not layer.transforms:
        return False
    if edge_attr is None or edge_attr.dim() != 2:
        return False
    known = subgraphs.num_nodes is not None and subgraphs.num_edges is not None
    return (
        known
        and subgraphs.num_copies > 1
        and layer.hop == "concat"
        and x.dtype == edge_attr.dtype == next(layer.parameters()).dtype
        and not torch.is_autocast_enabled(x.device.type)
        and _is_gine_stack(layer.gnn)
    )


def fused_encodings(
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor,
    over_context: Reduce,
) -> dict[Encoding, Tensor]:
    """What `GNNAK.encodings_of` gives, with the same arguments.

    Args:
        layer: A layer that `can_fuse`.
        x: Node states, [n, c].
        subgraphs: The rooted subgraphs.
        edge_attr: Edge states, [e, c + h].
        over_context: POOL of the context encoding.
    """
    table = None if layer.hop_table is None else layer.hop_table.weight
    rows = (
        subgraphs.hop
        if layer.hop_table is None
        else layer.hop_table.rows(subgraphs.hop)
    )
    gates = _gates(layer, table)
    names: list[Encoding] = [
        name for name in layer.encodings if name in layer.transforms
    ]
    matrix, offset = _joint_product(
        layer.project, [layer.transforms[name][0] for name in names]
    )
    z, at_centroid = _base_gnn(
        layer.gnn, lift(x, table, rows, subgraphs), edge_attr, subgraphs, matrix, offset
    )
    pools = [_pool(name, layer.transforms[name], subgraphs) for name in names]
    tables = [gates.get(name) for name in names]
    if layer.departures.mlp_layers == 1:
        pooled = gate_pools(z, tables, rows, pools)
    else:
        parts = [
            _further(layer.transforms[name], part)
            for name, part in zip(names, z.chunk(len(names), dim=1), strict=True)
        ]
        pooled = tuple(
            gate_pools(part, [table], rows, [pool])[0]
            for part, table, pool in zip(parts, tables, pools, strict=True)
        )
    encodings: dict[Encoding, Tensor] = dict(zip(names, pooled, strict=True))
    for name, pool in zip(names, pools, strict=True):
        reduce = over_context if name == "context" else layer.reduce
        if reduce == "mean":
            counts = pool.groups.ptr.diff().clamp(min=1)
            encodings[name] = encodings[name] / counts[:, None]
        elif name == "context":
            encodings[name] = scaled_up(encodings[name], subgraphs)
    if "centroid" in layer.encodings:
        centroid = layer.project(at_centroid)
        gate = gates.get("centroid")
        encodings["centroid"] = centroid if gate is None else centroid * gate[0]
    return {name: encodings[name] for name in layer.encodings}


def _base_gnn(
    stack: Stack,
    c: Tensor,
    edge_attr: Tensor,
    subgraphs: RootedSubgraphs,
    matrix: Tensor,
    offset: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Products of the base GNN's states [m, c'], and its states of centroids [s, w]."""
    edges = edges_of(subgraphs)
    for index, (conv, norm) in enumerate(zip(stack.convs, stack.norms, strict=True)):
        block, linear = conv.nn
        h = gine_linear(c, edge_attr, conv.eps, block[0].weight, edges)
        h = norm_relu_linear(block[1], h, linear)
        if index + 1 < stack.num_layers:
            c = norm_relu_add(norm, h, c)
    return norm_add_linear(norm, h, c, matrix, offset, subgraphs.centroid)


def _joint_product(
    project: nn.Module, products: list[nn.Sequential]
) -> tuple[Tensor, Tensor | None]:
    """All transforms' products as one, with the Linear before them multiplied in."""
    matrix = torch.cat([block[0].weight for block in products])
    if not isinstance(project, nn.Linear):
        return matrix, None
    return matrix @ project.weight, affine(project.bias[None], matrix, None)[0]


def _gates(layer: GNNAK, table: Tensor | None) -> dict[str, Tensor]:
    """Each gate's value for every row of the hop table, [t, c], in one product."""
    if table is None or not layer.gates:
        return {}
    linears = [gate.linear for gate in layer.gates.values()]
    matrix = torch.cat([linear.weight for linear in linears])
    offset = torch.cat([linear.bias for linear in linears])
    values = torch.sigmoid(affine(table, matrix, offset))
    parts = values.chunk(len(linears), dim=1)
    return {
        name: part.contiguous() for name, part in zip(layer.gates, parts, strict=True)
    }


def _further(transform: nn.Sequential, z: Tensor) -> Tensor:
    """All products of a transform but the first, whose result is z, [m, c]."""
    for before, block in pairwise(transform):
        z = norm_relu_linear(before[1], z, block[0])
    return z


def _pool(name: Encoding, transform: nn.Sequential, subgraphs: RootedSubgraphs) -> Pool:
    norm = transform[-1][1]
    if name == "context":
        return Pool(norm, subgraphs.by("node"), subgraphs.node)
    return Pool(norm, subgraphs.by("subgraph"), subgraphs.subgraph)


def _is_gine_stack(gnn: nn.Module) -> bool:
    if type(gnn) is not Stack or (gnn.training and gnn.after[1].p > 0):
        return False
    norms = [*gnn.norms, *(conv.nn[0][1] for conv in gnn.convs if _is_gine(conv))]
    return all(_is_gine(conv) for conv in gnn.convs) and all(
        type(norm) is BatchNorm for norm in norms
    )


def _is_gine(conv: nn.Module) -> bool:
    """Whether this is the GINE of the experiments: two Linears, a norm between."""
    if type(conv) is not GINEConv or conv.lin is not None or conv.aggr != "add":
        return False
    kinds = [nn.Sequential, nn.Linear]
    return (
        isinstance(conv.eps, Tensor)
        and [type(part) for part in conv.nn] == kinds
        and [type(part) for part in conv.nn[0]] == [nn.Linear, BatchNorm, nn.ReLU]
        and conv.nn[0][0].bias is None
    )
