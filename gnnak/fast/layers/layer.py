"""The fused GNN-AK layer, from node states to encodings.

It computes the same values as `GNNAK.encode` in plain PyTorch, up to rounding, but
reads and writes memory less often. Gates are looked up in a table with a row per hop.
One matrix product replaces the Linear after the base GNN and the first Linears of all
transforms. Few tensors have a row per edge copy (an edge as seen in one rooted
subgraph); most have a row per node copy (a node as seen in one rooted subgraph).
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from gnnak.fast.kernels.records import EdgeStates
from gnnak.fast.layers.gather import SMALL_TABLE
from gnnak.fast.layers.lift import lift
from gnnak.fast.layers.norm import norm_relu_linear, norm_relu_linears
from gnnak.fast.layers.parts import Block, blocks_of
from gnnak.fast.layers.pool import Pool, gate_pools
from gnnak.fast.layers.rows import Rows
from gnnak.fast.layers.stack import (
    can_fuse_stack,
    is_fused_stack,
    run_stack,
    stack_reads_affine,
)
from gnnak.fast.layers.weights import WeightProducts, weight_products
from gnnak.nn.encodings import scaled_to_all
from gnnak.nn.features import ContinuousEncoder
from gnnak.nn.norm import several_processes
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import Axis, RootedSubgraphs
from gnnak.typing import Encoding, Reduce

POOL_BY: dict[Encoding, Axis] = {"subgraph": "subgraph", "context": "node"}
"""For each pooled encoding, the key by which node copies are grouped before pooling:
their subgraph or their node. All node copies of a group are summed into one row."""


def reads_affine(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, encoder: ContinuousEncoder
) -> bool:
    """Return whether the fused layer can read the edge states in affine form.

    In affine form (`EdgeStates`) only one number per edge is stored, and the kernels
    compute the edge states from it.

    Args:
        layer: The GNN-AK layer.
        x: Node states, [n, c].
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
    """Return whether this layer is fused for all inputs, in float32 on a GPU."""
    return (
        bool(layer.transforms) and layer.hop == "concat" and is_fused_stack(layer.gnn)
    )


def can_fuse(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, e: EdgeStates | None
) -> bool:
    """Return whether `fused_encodings` can run this layer on these inputs.

    Args:
        layer: The GNN-AK layer.
        x: Node states, [n, c].
        subgraphs: The rooted subgraphs.
        e: Edge states; None if there are none.
    """
    if not _can_fuse_states(layer, x):
        return False
    if e is not None and (e.values.dim() != 2 or e.values.dtype != x.dtype):
        return False
    known = subgraphs.num_nodes is not None and subgraphs.num_edges is not None
    several = subgraphs.num_copies > 1
    return known and several and can_fuse_stack(layer.gnn, e, subgraphs)


def _can_fuse_states(layer: GNNAK, x: Tensor) -> bool:
    """Return the part of `can_fuse` that depends only on layer and node states."""
    if several_processes() or not layer.transforms:
        return False
    small = layer.hop_table is None or len(layer.hop_table.weight) <= SMALL_TABLE
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
        x: Node states, [n, c].
        subgraphs: The rooted subgraphs.
        e: Edge states, [e, c + h], where h is the width of the hop table; None if the
            base GNN reads no edge states.
        context_reduce: How the context encoding pools node copies: "sum" or "mean".

    Returns:
        Centroid and subgraph encodings, each with a row per rooted subgraph, [s, c],
        and context encodings, with a row per node, [n, c].
    """
    hops = layer.hop_table
    table = None if hops is None else hops.weight
    rows = subgraphs.hop if hops is None else hops.rows(subgraphs)
    products = weight_products(layer)
    transforms: dict[Encoding, list[Block]] = {
        name: blocks_of(layer.transforms[name])
        for name in layer.encodings
        if name in layer.transforms
    }
    c = lift(x, table, rows, subgraphs)
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
    for name in transforms:
        reduce = context_reduce if name == "context" else layer.reduce
        if reduce == "mean":
            counts = subgraphs.by(POOL_BY[name]).ptr.diff().clamp(min=1)
            encodings[name] = encodings[name] / counts[:, None]
        elif name == "context":
            encodings[name] = scaled_to_all(encodings[name], subgraphs)
    if "centroid" in layer.encodings:
        encodings["centroid"] = _centroid_encoding(at_centroid, products)
    return {name: encodings[name] for name in layer.encodings}


def _pooled_sums(
    z: Rows,
    transforms: dict[Encoding, list[Block]],
    gates: dict[str, Tensor],
    rows: Tensor,
    subgraphs: RootedSubgraphs,
) -> dict[Encoding, Tensor]:
    """Compute the subgraph and context encodings as sums, from the first Linears.

    Args:
        z: The output of the first Linears of all transforms, with a row per node copy,
            concatenated along the columns, [m, c'].
        transforms: For each pooled encoding, the blocks of its transform.
        gates: For each encoding that has a gate, the gate's value for each of the t
            rows of the hop table, [t, c].
        rows: For each node copy, its row of the hop table, [m].
        subgraphs: The rooted subgraphs.

    Returns:
        For each pooled encoding, the sums over subgraphs, [s, c], or nodes, [n, c].
    """
    tables = [gates.get(name) for name in transforms]
    pools = [_pool(name, blocks, subgraphs) for name, blocks in transforms.items()]
    if all(len(blocks) == 1 for blocks in transforms.values()):
        pooled = gate_pools(z, tables, rows, pools)
    else:
        first, second = ([blocks[i] for blocks in transforms.values()] for i in (0, 1))
        norms, linears = [b.norm for b in first], [b.linear for b in second]
        norm_follows = all(block.norm.training for block in second)
        seconds = norm_relu_linears(norms, z, linears, norm_follows, recompute=True)
        parts = map(_later_blocks, transforms.values(), seconds)
        pooled = tuple(
            gate_pools(part, [table], rows, [pool])[0]
            for part, table, pool in zip(parts, tables, pools, strict=True)
        )
    return dict(zip(transforms, pooled, strict=True))


def _centroid_encoding(states: Tensor, products: WeightProducts) -> Tensor:
    """Compute the centroid encoding, [s, c].

    Args:
        states: The base GNN's states of the centroids (the node copy of each root in
            its own subgraph), [s, w]; or [s, w + 4] with `BIAS_COLUMN` appended.
        products: The weight-only terms of the layer.
    """
    if products.centroid is not None:
        return linear(states, products.centroid)
    gate = products.gates.get("centroid")
    return states if gate is None else states * gate[0]


def _later_blocks(blocks: list[Block], z: Rows) -> Rows:
    """Apply the third and later Linears of a transform.

    Args:
        blocks: All blocks of the transform.
        z: The output of the second block's Linear, [m, c].
    """
    for before, block in pairwise(blocks[1:]):
        z = norm_relu_linear(before.norm, z, block.linear, block.norm.training)
    return z


def _pool(name: Encoding, blocks: list[Block], subgraphs: RootedSubgraphs) -> Pool:
    """Return what `gate_pools` needs to pool one encoding.

    Args:
        name: The encoding.
        blocks: The blocks of its transform; the last norm comes just before pooling.
        subgraphs: The rooted subgraphs.
    """
    key = subgraphs.node if name == "context" else subgraphs.subgraph
    return Pool(blocks[-1].norm, subgraphs.by(POOL_BY[name]), key)
