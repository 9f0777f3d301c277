"""A whole GNN-AK layer, from node states to encodings.

The same values as `GNNAK.encode` in plain PyTorch, to rounding: what depends
on a hop alone is a table, both transforms before pooling are one product (the Linear
before them multiplied in), and few tensors have a row for every edge copy.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

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
from gnnak.subgraphs.rooted import Axis, RootedSubgraphs
from gnnak.typing import Encoding, Reduce

if TYPE_CHECKING:
    from gnnak.nn.uplift import GNNAK

KEYS: dict[Encoding, Axis] = {"subgraph": "subgraph", "context": "node"}
"""What the copies that are pooled into one row share."""


def reads_affine(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, encoder: ContinuousEncoder
) -> bool:
    """Return whether the fused path takes this encoder's states in affine form."""
    if encoder.in_channels > 1 or not stack_reads_affine(layer.gnn):
        return False
    (block,) = blocks_of(nn.Sequential(encoder.block))
    # States of the same width and type, for the checks alone.
    states = EdgeStates(block.linear.weight.t())
    return can_fuse(layer, x, subgraphs, states)


def is_always_fused(layer: GNNAK) -> bool:
    """Return whether float32 training on a GPU always takes the fused path."""
    return (
        bool(layer.transforms) and layer.hop == "concat" and is_fused_stack(layer.gnn)
    )


def can_fuse(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, e: EdgeStates | None
) -> bool:
    """Whether this layer, on these inputs, has a fused path."""
    if not _can_fuse_states(layer, x):
        return False
    if e is not None and (e.values.dim() != 2 or e.values.dtype != x.dtype):
        return False
    known = subgraphs.num_nodes is not None and subgraphs.num_edges is not None
    several = subgraphs.num_copies > 1
    return known and several and can_fuse_stack(layer.gnn, e, subgraphs)


def _can_fuse_states(layer: GNNAK, x: Tensor) -> bool:
    """Whether the fused path knows such states, in such a layer and at such a time."""
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
    """Compute what `GNNAK.encode` does, with the same arguments.

    Args:
        layer: A layer that `can_fuse`.
        x: Node states, [n, c].
        subgraphs: The rooted subgraphs.
        e: Edge states, [e, c + h]; None for base GNNs that read none.
        context_reduce: POOL of the context encoding.
    """
    hops = layer.hop_table
    table = None if hops is None else hops.weight
    rows = subgraphs.hop if hops is None else hops.rows(subgraphs)
    known = weight_products(layer)
    gates = known.gates
    transforms: dict[Encoding, list[Block]] = {
        name: blocks_of(layer.transforms[name])
        for name in layer.encodings
        if name in layer.transforms
    }
    c = lift(x, table, rows, subgraphs)
    normed = all(blocks[0].norm.training for blocks in transforms.values())
    offset = known.offset
    if offset is not None and normed and "centroid" in layer.encodings:
        # Norms take it off again: of all its gradients, the centroid's is not zero.
        offset = offset.detach()
    product = (known.matrix, offset, normed, known.centroid is not None)
    z, at_centroid = run_stack(layer.gnn, c, e, subgraphs, *product)
    encodings = _sums(z, transforms, gates, rows, subgraphs)
    for name in transforms:
        reduce = context_reduce if name == "context" else layer.reduce
        if reduce == "mean":
            counts = subgraphs.by(KEYS[name]).ptr.diff().clamp(min=1)
            encodings[name] = encodings[name] / counts[:, None]
        elif name == "context":
            encodings[name] = scaled_to_all(encodings[name], subgraphs)
    if "centroid" in layer.encodings:
        encodings["centroid"] = _at_centroid(at_centroid, known)
    return {name: encodings[name] for name in layer.encodings}


def _sums(
    z: Rows,
    transforms: dict[Encoding, list[Block]],
    gates: dict[str, Tensor],
    rows: Tensor,
    subgraphs: RootedSubgraphs,
) -> dict[Encoding, Tensor]:
    """The pooled encodings from the transforms' first products, side by side in z."""
    tables = [gates.get(name) for name in transforms]
    pools = [_pool(name, blocks, subgraphs) for name, blocks in transforms.items()]
    if all(len(blocks) == 1 for blocks in transforms.values()):
        pooled = gate_pools(z, tables, rows, pools)
    else:
        first, second = ([blocks[i] for blocks in transforms.values()] for i in (0, 1))
        norms, linears = [b.norm for b in first], [b.linear for b in second]
        normed = all(block.norm.training for block in second)
        seconds = norm_relu_linears(norms, z, linears, normed, remade=True)
        parts = map(_further, transforms.values(), seconds)
        pooled = tuple(
            gate_pools(part, [table], rows, [pool])[0]
            for part, table, pool in zip(parts, tables, pools, strict=True)
        )
    return dict(zip(transforms, pooled, strict=True))


def _at_centroid(states: Tensor, known: WeightProducts) -> Tensor:
    """The centroid encoding, from the base GNN's states of centroids, [s, w]."""
    if known.centroid is not None:
        return linear(states, known.centroid)
    gate = known.gates.get("centroid")
    return states if gate is None else states * gate[0]


def _further(blocks: list[Block], z: Rows) -> Rows:
    """All products of a transform but the first two, whose result is z, [m, c]."""
    for before, block in pairwise(blocks[1:]):
        z = norm_relu_linear(before.norm, z, block.linear, block.norm.training)
    return z


def _pool(name: Encoding, blocks: list[Block], subgraphs: RootedSubgraphs) -> Pool:
    key = subgraphs.node if name == "context" else subgraphs.subgraph
    return Pool(blocks[-1].norm, subgraphs.by(KEYS[name]), key)
