"""The fused GNN-AK layer, from node states to encodings.

The layer computes the same values as `GNNAK.encode` in plain PyTorch, up to rounding,
but reads and writes less memory:

- Gates, which depend only on the hop (the distance to the root), are computed once per
  hop and looked up in a table.
- Without dropout, one matrix product replaces the Linear after the base GNN and the
  first Linears of the MLPs of all encodings.
- Messages, one for each edge of each rooted subgraph, are not stored if possible.
"""

from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from gnnak.fast.kernels.records import EdgeStates
from gnnak.fast.layers.gather import SMALL_HOP_TABLE
from gnnak.fast.layers.lift import lift
from gnnak.fast.layers.norm import norm_relu_linear, norm_relu_linears
from gnnak.fast.layers.parts import Block, blocks_of
from gnnak.fast.layers.pool import Pool, gate_pools
from gnnak.fast.layers.rows import Rows
from gnnak.fast.layers.stack import (
    can_fuse_stack,
    is_fused_stack,
    run_stack,
    run_stack_with_dropout,
    stack_reads_affine,
)
from gnnak.fast.layers.weights import WeightProducts, weight_products
from gnnak.nn.base.stack import Stack
from gnnak.nn.encodings import scaled_to_all
from gnnak.nn.features import ContinuousEncoder
from gnnak.nn.norm import several_processes
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import Axis, RootedSubgraphs
from gnnak.typing import Encoding, Reduce

POOL_BY: dict[Encoding, Axis] = {"subgraph": "subgraph", "context": "node"}
"""For each encoding, by what the states of the base GNN are grouped and summed. The
subgraph encoding sums the states in one rooted subgraph; the context encoding sums the
states of one node in all rooted subgraphs."""


def reads_affine(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, encoder: ContinuousEncoder
) -> bool:
    """Return whether the fused layer can compute edge states inside its kernels.

    If each edge has a single number as raw feature, the state of an edge is
    ReLU(slope * number + offset). Kernels that support this compute the state when they
    need it, so edge states are not stored.

    Args:
        layer: The GNN-AK layer.
        x: States of the n nodes, [n, c].
        subgraphs: The rooted subgraphs.
        encoder: The encoder that maps raw edge features to edge states.
    """
    if encoder.in_channels > 1 or not stack_reads_affine(layer.gnn):
        return False
    (block,) = blocks_of(nn.Sequential(encoder.block))
    # A placeholder for the edge states: `can_fuse` reads only their width and dtype.
    states = EdgeStates(block.linear.weight.t())
    return can_fuse(layer, x, subgraphs, states)


def is_always_fused(layer: GNNAK) -> bool:
    """Return whether this layer uses fused kernels for every float32 input on a GPU."""
    return (
        bool(layer.transforms) and layer.hop == "concat" and is_fused_stack(layer.gnn)
    )


def can_fuse(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, e: EdgeStates | None
) -> bool:
    """Return whether `fused_encodings` can run this layer on these inputs.

    Args:
        layer: The GNN-AK layer.
        x: States of the n nodes, [n, c].
        subgraphs: The rooted subgraphs.
        e: States of the edges; None if there are no edge states.
    """
    if not _can_fuse_states(layer, x):
        return False
    if e is not None and (e.values.dim() != 2 or e.values.dtype != x.dtype):
        return False
    known = subgraphs.num_nodes is not None and subgraphs.num_edges is not None
    several = subgraphs.num_copies > 1
    return known and several and can_fuse_stack(layer.gnn, e, subgraphs)


def _can_fuse_states(layer: GNNAK, x: Tensor) -> bool:
    """Return whether the layer's options and the node states `x` allow a fused layer.

    `can_fuse` also checks the subgraphs and the edge states.
    """
    if several_processes() or not layer.transforms:
        return False
    small = layer.hop_table is None or len(layer.hop_table.weight) <= SMALL_HOP_TABLE
    return (
        small
        and layer.hop == "concat"
        and x.dtype == next(layer.parameters()).dtype
        and not torch.is_autocast_enabled(x.device.type)
    )


def fused_encodings(
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    e: EdgeStates | None,
    context_reduce: Reduce,
) -> dict[Encoding, Tensor]:
    """Compute the same encodings as `GNNAK.encode`, with fused kernels.

    Args:
        layer: A layer accepted by `can_fuse`.
        x: States of the n nodes, [n, c].
        subgraphs: The rooted subgraphs.
        e: States of the edges, as wide as the input states of the base GNN; None if the
            base GNN reads no edge states.
        context_reduce: "sum" or "mean": how the context encoding pools the states that
            a node has in all rooted subgraphs that contain the node.

    Returns:
        A tensor for each name of an encoding: "centroid" and "subgraph" have a row for
        each of the s rooted subgraphs, [s, c], and "context" one per node, [n, c].
    """
    hops = layer.hop_table
    table = None if hops is None else hops.weight
    rows = subgraphs.hop if hops is None else hops.rows(subgraphs)
    transforms: dict[Encoding, list[Block]] = {
        name: blocks_of(layer.transforms[name])
        for name in layer.encodings
        if name in layer.transforms
    }
    c = lift(x, table, rows, subgraphs)
    encode = _with_dropout if _drops(layer) else _without_dropout
    encodings = encode(layer, c, e, transforms, rows, subgraphs)
    for name in transforms:
        reduce = context_reduce if name == "context" else layer.reduce
        if reduce == "mean":
            counts = subgraphs.by(POOL_BY[name]).ptr.diff().clamp(min=1)
            encodings[name] = encodings[name] / counts[:, None]
        elif name == "context":
            encodings[name] = scaled_to_all(encodings[name], subgraphs)
    return {name: encodings[name] for name in layer.encodings}


def _drops(layer: GNNAK) -> bool:
    """Return whether a layer or its base GNN is training with dropout."""
    parts = (layer.dropout, *cast(Stack, layer.gnn).after)
    return any(isinstance(m, nn.Dropout) and m.training and m.p > 0 for m in parts)


def _without_dropout(
    layer: GNNAK,
    c: Rows,
    e: EdgeStates | None,
    transforms: dict[Encoding, list[Block]],
    rows: Tensor,
    subgraphs: RootedSubgraphs,
) -> dict[Encoding, Tensor]:
    """Compute the encodings with one product for the first Linears of all transforms.

    Pooled encodings are sums, before they are divided for a mean.
    """
    products = weight_products(layer)
    norm_follows = all(blocks[0].norm.training for blocks in transforms.values())
    offset = products.offset
    if offset is not None and norm_follows and "centroid" in layer.encodings:
        # The norms cancel the offset W b, so its gradient is zero and need not be
        # computed. Without a centroid encoding, W b is the only use of the bias b, and
        # the gradient of b must not be None.
        offset = offset.detach()
    after = (products.matrix, offset, norm_follows, products.centroid is not None)
    z, at_centroid = run_stack(layer.gnn, c, e, subgraphs, *after)
    encodings = _pooled_sums(z, transforms, products.gates, rows, subgraphs)
    if "centroid" in layer.encodings:
        encodings["centroid"] = _centroid_encoding(at_centroid, products)
    return encodings


def _with_dropout(
    layer: GNNAK,
    c: Rows,
    e: EdgeStates | None,
    transforms: dict[Encoding, list[Block]],
    rows: Tensor,
    subgraphs: RootedSubgraphs,
) -> dict[Encoding, Tensor]:
    """Compute what `_without_dropout` does, with dropout before each transform.

    Each transform has a dropout mask of its own, so that neither the Linear after the
    base GNN nor the first Linear of another transform fits into the same product.
    """
    emb = layer.project(run_stack_with_dropout(layer.gnn, c, e, subgraphs))
    gates: dict[str, Tensor] = {}
    if layer.hop_table is not None:
        table = layer.hop_table.weight
        gates = {name: gate(table) for name, gate in layer.gates.items()}
    encodings: dict[Encoding, Tensor] = {}
    for name, blocks in transforms.items():
        z = Rows(linear(layer.dropout(emb), blocks[0].linear.weight))
        encodings |= _pooled_sums(z, {name: blocks}, gates, rows, subgraphs)
    if "centroid" in layer.encodings:
        roots = emb.index_select(0, subgraphs.centroid)
        gate = gates.get("centroid")
        encodings["centroid"] = roots if gate is None else roots * gate[0]
    return encodings


def _pooled_sums(
    z: Rows,
    transforms: dict[Encoding, list[Block]],
    gates: dict[str, Tensor],
    rows: Tensor,
    subgraphs: RootedSubgraphs,
) -> dict[Encoding, Tensor]:
    """Compute the sums of the subgraph encoding and of the context encoding.

    Args:
        z: The output of the first Linears of all encodings' MLPs, side by side, with a
            row per node copy (a node as it occurs in one rooted subgraph).
        transforms: For each encoding, the blocks of its MLP.
        gates: For each encoding that has a gate (a factor that depends on the distance
            to the root), the gate's values for each row of the hop table.
        rows: For each node copy, its row of the hop table.
        subgraphs: The rooted subgraphs.
    """
    tables = [gates.get(name) for name in transforms]
    pools = [_pool(name, blocks, subgraphs) for name, blocks in transforms.items()]
    if all(len(blocks) == 1 for blocks in transforms.values()):
        pooled = gate_pools(z, tables, rows, pools)
    else:
        first, second = ([blocks[i] for blocks in transforms.values()] for i in (0, 1))
        norms, linears = [b.norm for b in first], [b.linear for b in second]
        norm_follows = all(block.norm.training for block in second)
        outputs = norm_relu_linears(norms, z, linears, norm_follows, recompute=True)
        parts = map(_later_blocks, transforms.values(), outputs)
        pooled = tuple(
            gate_pools(part, [table], rows, [pool])[0]
            for part, table, pool in zip(parts, tables, pools, strict=True)
        )
    return dict(zip(transforms, pooled, strict=True))


def _centroid_encoding(states: Tensor, products: WeightProducts) -> Tensor:
    """Compute the centroid encoding from the roots' states, by a Linear and a gate.

    Args:
        states: For each rooted subgraph, the base GNN's state of the root.
        products: Tensors computed from the weights of the layer.
    """
    if products.centroid is not None:
        return linear(states, products.centroid)
    gate = products.gates.get("centroid")
    return states if gate is None else states * gate[0]


def _later_blocks(blocks: list[Block], z: Rows) -> Rows:
    """Apply an MLP from the norm after the second Linear up to the last Linear.

    Args:
        blocks: All blocks (Linear, norm, ReLU) of the MLP.
        z: The output of the second Linear.
    """
    for before, block in pairwise(blocks[1:]):
        z = norm_relu_linear(before.norm, z, block.linear, block.norm.training)
    return z


def _pool(name: Encoding, blocks: list[Block], subgraphs: RootedSubgraphs) -> Pool:
    """Return the last norm of an encoding's MLP, and the rows to sum after this norm.

    Args:
        name: "subgraph" or "context".
        blocks: The blocks (Linear, norm, ReLU) of the encoding's MLP.
        subgraphs: The rooted subgraphs.
    """
    key = subgraphs.node if name == "context" else subgraphs.subgraph
    return Pool(blocks[-1].norm, subgraphs.by(POOL_BY[name]), key)
