"""The fused GNN-AK layer, from node states to encodings.

The layer computes the same values as `GNNAK.encode` in plain PyTorch, up to rounding,
but reads and writes less memory:

- Gates, which depend only on the hop (the distance to the root), are computed once per
  hop and looked up in a table.
- Without dropout, one matrix product replaces the Linear after the base GNN and the
  first Linears of the MLPs of all encodings.
- Messages, one for each edge copy, are not stored if possible.
"""

from itertools import islice, pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from gnnak.fast.layers.general import (
    POOL_BY,
    can_fuse_pools,
    hop_rows,
    is_small,
    pooled_encodings,
    reduced,
)
from gnnak.fast.layers.lift import lift
from gnnak.fast.layers.lifted_gine import shared_gates
from gnnak.fast.layers.norm import norm_relu_linear, norm_relu_linears
from gnnak.fast.layers.parts import (
    REDUCES,
    Block,
    Serves,
    autocast_dtype,
    blocks_of,
    has_hooks,
    implements,
)
from gnnak.fast.layers.pool import Pool, gate_pools
from gnnak.fast.layers.rows import Rows
from gnnak.fast.layers.stack import (
    can_fuse_stack,
    is_fused_stack,
    run_stack,
    run_stack_with_dropout,
)
from gnnak.fast.layers.weights import weight_products
from gnnak.nn.base.stack import Stack
from gnnak.nn.calling import Inputs
from gnnak.nn.norm import several_processes
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


@implements("encode")
def encode_layer(
    serves: Serves,
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | Inputs | None,
    context_reduce: Reduce,
) -> dict[Encoding, Tensor]:
    """Compute the encodings; fuse the whole layer if possible, else only its pools."""
    if not serves(x):
        return NotImplemented
    if not isinstance(edge_attr, Inputs):
        reduces = {layer.reduce, context_reduce} <= set(REDUCES)
        if reduces and can_fuse(layer, x, subgraphs, edge_attr):
            return fused_encodings(layer, x, subgraphs, edge_attr, context_reduce)
    if not can_fuse_pools(layer, subgraphs, context_reduce):
        return NotImplemented
    with shared_gates():
        emb = layer.embed(x, subgraphs, edge_attr)
        return pooled_encodings(layer, emb, subgraphs, context_reduce)


def is_always_fused(layer: GNNAK) -> bool:
    """Return whether a layer is fused for any GPU input in float32 or bf16 autocast."""
    pools = bool(layer.transforms) and layer.reduce in REDUCES
    return pools and layer.hop == "concat" and is_fused_stack(layer.gnn)


def can_fuse(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, e: Tensor | None
) -> bool:
    if several_processes() or not layer.transforms or layer.hop != "concat":
        return False
    if not is_small(layer.hop_table) or not _has_fused_dtype(layer, x, e):
        return False
    if any(map(has_hooks, islice(layer.modules(), 1, None))):
        return False
    known = subgraphs.num_nodes is not None and subgraphs.num_edges is not None
    several = subgraphs.num_copies > 1
    return known and several and can_fuse_stack(layer.gnn, e, subgraphs)


def _has_fused_dtype(layer: GNNAK, x: Tensor, e: Tensor | None) -> bool:
    """Return whether fused layers support the dtypes of the weights, `x` and `e`."""
    weight, asked = next(layer.parameters()).dtype, autocast_dtype(x)
    if asked is None:
        fits = x.dtype == weight and weight in (torch.float, torch.double)
        return fits and (e is None or (e.dim() == 2 and e.dtype == x.dtype))
    states = [x] if e is None else [x, e]
    narrow = all(s.dtype in (torch.float, torch.bfloat16) for s in states)
    fits = asked == torch.bfloat16 and weight == torch.float
    return fits and narrow and (e is None or e.dim() == 2)


def fused_encodings(
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    e: Tensor | None,
    context_reduce: Reduce,
) -> dict[Encoding, Tensor]:
    table = None if layer.hop_table is None else layer.hop_table.weight
    rows = hop_rows(layer, subgraphs)
    transforms: dict[Encoding, list[Block]] = {
        name: blocks_of(layer.transforms[name])
        for name in layer.encodings
        if name in layer.transforms
    }
    c = lift(x, table, rows, subgraphs, dtype=autocast_dtype(x))
    encode = _with_dropout if _drops(layer) else _without_dropout
    sums = encode(layer, c, e, transforms, rows, subgraphs)
    return reduced(layer, sums, subgraphs, context_reduce)


def _drops(layer: GNNAK) -> bool:
    parts = (layer.dropout, *cast(Stack, layer.gnn).after)
    return any(isinstance(m, nn.Dropout) and m.training and m.p > 0 for m in parts)


def _without_dropout(
    layer: GNNAK,
    c: Rows,
    e: Tensor | None,
    transforms: dict[Encoding, list[Block]],
    rows: Tensor,
    subgraphs: RootedSubgraphs,
) -> dict[Encoding, Tensor]:
    """Compute the pooled sums; the first Linears of all MLPs are merged into one."""
    products = weight_products(layer)
    norm_follows = all(blocks[0].norm.training for blocks in transforms.values())
    offset = products.offset
    if offset is not None and norm_follows and "centroid" in layer.encodings:
        # The norms cancel the offset W b, so its gradient is zero and need not be
        # computed. Without a centroid encoding, W b is the only use of the bias b, and
        # the gradient of b must not be None.
        offset = offset.detach()
    stack, matrix = cast(Stack, layer.gnn), products.matrix
    bias_column = products.centroid is not None
    z, roots = run_stack(
        stack, c, e, subgraphs, matrix, offset, norm_follows, bias_column
    )
    encodings = _pooled_sums(z, transforms, products.gates, rows, subgraphs)
    if "centroid" in layer.encodings and products.centroid is not None:
        encodings["centroid"] = linear(roots, products.centroid)
    elif "centroid" in layer.encodings:
        gate = products.gates.get("centroid")
        encodings["centroid"] = roots if gate is None else roots * gate[0]
    return encodings


def _with_dropout(
    layer: GNNAK,
    c: Rows,
    e: Tensor | None,
    transforms: dict[Encoding, list[Block]],
    rows: Tensor,
    subgraphs: RootedSubgraphs,
) -> dict[Encoding, Tensor]:
    """Compute the pooled sums; each MLP has its own dropout mask and first Linear."""
    states = run_stack_with_dropout(cast(Stack, layer.gnn), c, e, subgraphs)
    emb = layer.project(states)
    gates: dict[str, Tensor] = {}
    if layer.hop_table is not None:
        table = layer.hop_table.weight
        gates = {name: gate(table) for name, gate in layer.gates.items()}
    encodings: dict[Encoding, Tensor] = {}
    for name, blocks in transforms.items():
        z = Rows(linear(layer.dropout(emb), blocks[0].linear.weight))
        encodings |= _pooled_sums(z, {name: blocks}, gates, rows, subgraphs)
    if "centroid" in layer.encodings:
        roots, gate = emb.index_select(0, subgraphs.centroid), gates.get("centroid")
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

    `z` has the outputs of the first Linears of all MLPs as adjacent columns.
    """
    tables = [gates.get(name) for name in transforms]
    pools = [
        Pool(
            blocks[-1].norm,
            subgraphs.by(POOL_BY[name]),
            subgraphs.node if name == "context" else subgraphs.subgraph,
        )
        for name, blocks in transforms.items()
    ]
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


def _later_blocks(blocks: list[Block], z: Rows) -> Rows:
    for before, block in pairwise(blocks[1:]):
        z = norm_relu_linear(before.norm, z, block.linear, block.norm.training)
    return z
