"""The fused GNN-AK layer: `GNNAK.encode` with less memory traffic.

- Gates, which depend only on the hop, are computed once per hop.
- Without dropout, one matrix product replaces the Linear after the base GNN and the
  first Linears of the MLPs of all encodings.
- The convs of the base GNN (GINE, GCN or PNA*) avoid storing messages, of which there
  is one for each edge copy.
"""

from collections.abc import Callable
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeGuard, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear
from torch_geometric.nn import GCNConv, GINEConv

from gnnak.distributed import several_processes
from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import Edges, Moments
from gnnak.fast.layers.convs import fits_gcn, is_changed, run_gcn
from gnnak.fast.layers.general import (
    POOL_BY,
    can_fuse_pools,
    fused_embedding,
    gate_tables,
    gated_roots,
    has_usual_encodings,
    pooled_encodings,
    reduced,
    shared_gates,
)
from gnnak.fast.layers.norm import (
    Pool,
    as_given,
    gate_pools,
    norm_add_linear,
    norm_relu_add,
    norm_relu_linear,
    norm_relu_linears,
)
from gnnak.fast.layers.parts import (
    REDUCES,
    Block,
    Recompute,
    Rows,
    Serves,
    autocast_dtype,
    blocks_of,
    distinct_rows,
    edges_of,
    has_fused_dtype,
    has_hooks,
    implements,
    is_fusable,
    lift,
    recompute_function,
    saved_or_recomputed,
    to_save,
    two_linears,
)
from gnnak.fast.layers.weights import (
    encoding_rows,
    encoding_table,
    weight_products,
)
from gnnak.nn.base.convs import GCN
from gnnak.nn.base.pna import PNAStarConv
from gnnak.nn.base.stack import Stack
from gnnak.nn.calling import Inputs
from gnnak.nn.copies import lookup
from gnnak.nn.norm import BatchNorm, current_real_rows
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


def fits_gine(conv: GINEConv, e: Tensor | None, subgraphs: RootedSubgraphs) -> bool:
    parts = two_linears(conv.nn)
    return (
        parts is not None
        and e is not None
        and e.size(1) == parts.first.in_features
        and conv.lin is None
        and conv.aggr == "add"
    )


def run_gine(
    conv: GINEConv, c: Rows, e: Tensor | None, edges: Edges, norm_follows: bool
) -> tuple[Rows, Rows]:
    parts = two_linears(conv.nn)
    assert parts is not None
    values, same, moments = _GineLinear.apply(
        c.values, e, conv.eps, parts.first.weight, edges, c.recompute
    )
    h, c = Rows(values, moments), Rows(same, recompute=c.recompute)
    return norm_relu_linear(parts.norm, h, parts.second, norm_follows), c


class _GineLinear(torch.autograd.Function):
    """GINE's sums of messages, then a Linear; also returns `c` and `Moments`."""

    @staticmethod
    def forward(
        ctx: Any,
        c: Tensor,
        e: Tensor,
        eps: Tensor,
        matrix: Tensor,
        edges: Edges,
        recompute: Recompute | None,
    ) -> tuple[Tensor, Tensor, Moments | None]:
        kernels = kernels_for(c)
        ctx.save_for_backward(e, eps, matrix, *to_save(c, recompute))
        ctx.edges, ctx.recompute = edges, recompute_function(recompute)
        real = current_real_rows().nodes
        summed = kernels.messages(c, e, eps, edges)
        h, moments = kernels.norm_linear(summed, None, matrix, None, real)
        return h, c, moments

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: Tensor, more: Tensor, _: None
    ) -> tuple[Tensor | None, ...]:
        e, eps, matrix, *saved = ctx.saved_tensors
        c, edges = saved_or_recomputed(saved, ctx.recompute), ctx.edges
        kernels = kernels_for(c)
        grad_matrix = grad.t() @ kernels.messages(c, e, eps, edges)
        grads = kernels.messages_backward(
            grad @ matrix.to(grad.dtype), c, e, eps, edges, more.contiguous()
        )
        return *grads, grad_matrix, None, None


def fits_pna(conv: PNAStarConv, e: Tensor | None, subgraphs: RootedSubgraphs) -> bool:
    if e is None:
        fits_edges = conv.edge_channels == 0
    else:
        fits_edges = 0 < conv.edge_channels == e.size(1)
    parts = two_linears(conv.message) and two_linears(conv.update)
    several = several_processes() or subgraphs.num_edge_copies > 1
    return fits_edges and parts is not None and several


def run_pna(
    conv: PNAStarConv, c: Rows, e: Tensor | None, edges: Edges, norm_follows: bool
) -> tuple[Rows, Rows]:
    message, update = two_linears(conv.message), two_linears(conv.update)
    assert message is not None
    assert update is not None
    weight, real = message.first.weight, as_given(message.norm).real_rows()
    h, moments = _PairLinear.apply(c.values, e, weight, edges, real, c.recompute)
    sent = norm_relu_linear(
        message.norm, Rows(h, moments), message.second, norm_follows=False
    )
    pooled = _PnaPool.apply(sent.values, edges.by_target)
    degree = edges.by_target.ptr.diff().clamp_(max=conv.degree.num_embeddings - 1)
    of_degree = lookup(conv.degree.weight, degree).to(pooled.dtype)
    joined = torch.cat([c.values, pooled, of_degree], dim=1)
    h = Rows(linear(joined, update.first.weight.to(joined.dtype)))
    return norm_relu_linear(update.norm, h, update.second, norm_follows), c


class _PairLinear(torch.autograd.Function):
    """Autograd function: apply `matrix` to states (target, source, edge), [f, w]."""

    @staticmethod
    def forward(
        ctx: Any,
        c: Tensor,
        e: Tensor | None,
        matrix: Tensor,
        edges: Edges,
        real: Tensor | None,
        recompute: Recompute | None,
    ) -> tuple[Tensor, Moments | None]:
        ctx.save_for_backward(e, matrix, *to_save(c, recompute))
        ctx.edges, ctx.recompute = edges, recompute_function(recompute)
        for_target, for_source, for_edge = _split(matrix.to(c.dtype), c.size(1))
        at_target, at_source = linear(c, for_target), linear(c, for_source)
        at_edge = None if e is None else linear(e.to(c.dtype), for_edge)
        if at_edge is not None and edges.by_edge is None:
            at_target, at_edge = at_target.add_(at_edge), None
        return kernels_for(c).pair_sum(at_target, at_source, at_edge, edges, real)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor | None, ...]:
        e, matrix, *saved = ctx.saved_tensors
        c = saved_or_recomputed(saved, ctx.recompute)
        edges, sum_by = ctx.edges, kernels_for(c).sum_by
        for_target, for_source, for_edge = _split(matrix.to(c.dtype), c.size(1))
        of_target = sum_by(grad, edges.by_target)
        grad_c, grad_matrix = of_target @ for_target, [of_target.t() @ c]
        back = sum_by(grad, edges.by_source)
        grad_c.addmm_(back, for_source)
        grad_matrix.append(back.t() @ c)
        grad_e = None
        if e is not None:
            if edges.by_edge is None:
                back = of_target.sum(dim=0, keepdim=True)
            else:
                back = sum_by(grad, edges.by_edge)
            grad_e = back @ for_edge
            grad_matrix.append(back.t() @ e.to(c.dtype))
        return grad_c, grad_e, torch.cat(grad_matrix, dim=1), None, None, None


def _split(matrix: Tensor, width: int) -> tuple[Tensor, ...]:
    return matrix.tensor_split([width, 2 * width], dim=1)


class _PnaPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, message: Tensor, groups: Groups) -> Tensor:
        pooled = kernels_for(message).pna_pool(message, groups)
        ctx.save_for_backward(message, pooled)
        ctx.groups = groups
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        message, pooled = ctx.saved_tensors
        kernels = kernels_for(message)
        return kernels.pna_pool_backward(grad, message, pooled, ctx.groups), None


class FusedConv(NamedTuple):
    """The fused implementation of one class of graph convolutions."""

    fits: Callable[[Any, Tensor | None, RootedSubgraphs], bool]
    """`fits(conv, e, subgraphs)` tells whether `run` can replace the conv."""
    run: Callable[[Any, Rows, Tensor | None, Edges, bool], tuple[Rows, Rows]]
    """`run(conv, c, e, edges, norm_follows)` returns the conv's output, [m, w], and
    `c`. A residual sum must read the returned `c`, so that the conv's backward pass can
    add up all gradients of `c`."""


CONVS: dict[type[nn.Module], FusedConv] = {
    GINEConv: FusedConv(fits_gine, run_gine),
    GCNConv: FusedConv(fits_gcn, run_gcn),
    GCN: FusedConv(fits_gcn, run_gcn),
    PNAStarConv: FusedConv(fits_pna, run_pna),
}
"""Fused implementations of convs. Subclasses are not fused, since they may compute
something else. `GCN` is an exception: it computes the same as `GCNConv`."""


def is_fused_stack(gnn: nn.Module) -> TypeGuard[Stack]:
    if type(gnn) is not Stack:
        return False
    known = all(type(conv) in CONVS and not is_changed(conv) for conv in gnn.convs)
    return known and all(map(is_fusable, gnn.norms))


def _parts(stack: Stack) -> list[tuple[nn.Module, BatchNorm]]:
    norms = cast("list[BatchNorm]", stack.norms)
    return list(zip(stack.convs, norms, strict=True))


def _run_convs(
    parts: list[tuple[nn.Module, BatchNorm]],
    c: Rows,
    e: Tensor | None,
    edges: Edges,
    dropout: float,
) -> Rows:
    for conv, norm in parts:
        h, c = CONVS[type(conv)].run(conv, c, e, edges, norm.training)
        c = Rows(norm_relu_add(norm, h, c.values, dropout))
    return c


def _run_stack(layer: GNNAK, c: Rows, e: Tensor | None, edges: Edges) -> Tensor:
    """Return the output of the base GNN, [m, c], from its input, [m, w]."""
    stack = cast(Stack, layer.gnn)
    dropout = cast(nn.Dropout, stack.after[1])
    p = dropout.p if dropout.training else 0.0
    return layer.project(_run_convs(_parts(stack), c, e, edges, p).values)


@implements("encode")
def encode_layer(
    serves: Serves,
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | Inputs | None,
    context_reduce: Reduce,
) -> dict[Encoding, Tensor]:
    """Compute the encodings. If the layer cannot be fused, fuse at least its pools."""
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


@implements("embed")
def embed_layer(
    serves: Serves,
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | Inputs | None,
) -> Tensor:
    """Compute `GNNAK.embed`; if `pairs` has more than the distance, also of stacks."""
    if (
        layer.pair_linears is None
        or isinstance(edge_attr, Inputs)
        or not serves(x)
        or not _can_run_stack(layer, x, subgraphs, edge_attr)
    ):
        return fused_embedding(serves, layer, x, subgraphs, edge_attr)
    c = Rows(layer.augment(x, subgraphs).to(autocast_dtype(x) or x.dtype))
    e = distinct_rows(edge_attr)
    return _run_stack(layer, c, e, edges_of(subgraphs, e))


def is_always_fused(layer: GNNAK) -> bool:
    """Return whether a layer is fused for any GPU input in float32 or bf16 autocast."""
    pools = bool(layer.transforms) and layer.reduce in REDUCES
    return pools and layer.hop == "concat" and is_fused_stack(layer.gnn)


def can_fuse(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, e: Tensor | None
) -> bool:
    appended = layer.hop == "concat"
    if not layer.transforms or not appended or not has_usual_encodings(layer):
        return False
    return _can_run_stack(layer, x, subgraphs, e)


def _can_run_stack(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, e: Tensor | None
) -> bool:
    if not has_fused_dtype(layer, x, e):
        return False
    if any(map(has_hooks, islice(layer.modules(), 1, None))):
        return False
    known = subgraphs.num_nodes is not None and subgraphs.num_edges is not None
    # All processes must make the same choice, whatever their numbers of rows.
    several = several_processes() or subgraphs.num_copies > 1
    if not known or not several or not is_fused_stack(layer.gnn):
        return False
    return all(CONVS[type(conv)].fits(conv, e, subgraphs) for conv in layer.gnn.convs)


def fused_encodings(
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    e: Tensor | None,
    context_reduce: Reduce,
) -> dict[Encoding, Tensor]:
    dtype = autocast_dtype(x) or x.dtype
    table, rows = encoding_table(layer), encoding_rows(layer, subgraphs, dtype)
    transforms: dict[Encoding, list[Block]] = {
        name: blocks_of(layer.transforms[name])
        for name in layer.encodings
        if name in layer.transforms
    }
    c = lift(x, table, rows, subgraphs, dtype=dtype)
    e = distinct_rows(e)
    edges = edges_of(subgraphs, e)
    encode = _with_dropout if _drops(layer) else _without_dropout
    sums = encode(layer, c, e, edges, transforms, rows, subgraphs)
    return reduced(layer, sums, subgraphs, context_reduce)


def _drops(layer: GNNAK) -> bool:
    parts = (layer.dropout, *cast(Stack, layer.gnn).after)
    return any(isinstance(m, nn.Dropout) and m.training and m.p > 0 for m in parts)


def _without_dropout(
    layer: GNNAK,
    c: Rows,
    e: Tensor | None,
    edges: Edges,
    transforms: dict[Encoding, list[Block]],
    rows: Tensor,
    subgraphs: RootedSubgraphs,
) -> dict[Encoding, Tensor]:
    """Compute centroid encoding and pooled sums, without dropout, by merged Linears."""
    products = weight_products(layer)
    norm_follows = all(blocks[0].norm.training for blocks in transforms.values())
    offset = products.offset
    if offset is not None and norm_follows and "centroid" in layer.encodings:
        # The norms cancel the offset W b, so its gradient is zero and need not be
        # computed. Without a centroid encoding, W b is the only use of the bias b, and
        # the gradient of b must not be None.
        offset = offset.detach()
    *before, (conv, norm) = _parts(cast(Stack, layer.gnn))
    c = _run_convs(before, c, e, edges, 0.0)
    h, c = CONVS[type(conv)].run(conv, c, e, edges, norm.training)
    matrix, bias_column = products.matrix, products.centroid is not None
    z, roots = norm_add_linear(
        norm, h, c, matrix, offset, subgraphs, norm_follows, bias_column
    )
    encodings = _pooled_sums(z, transforms, products.gates, rows, subgraphs)
    if "centroid" in layer.encodings:
        if products.centroid is not None:
            roots = linear(roots, products.centroid)
        encodings["centroid"] = gated_roots(roots, products.gates, rows, subgraphs)
    return encodings


def _with_dropout(
    layer: GNNAK,
    c: Rows,
    e: Tensor | None,
    edges: Edges,
    transforms: dict[Encoding, list[Block]],
    rows: Tensor,
    subgraphs: RootedSubgraphs,
) -> dict[Encoding, Tensor]:
    """Compute the centroid encoding and pooled sums, with a dropout mask per MLP."""
    emb = _run_stack(layer, c, e, edges)
    gates = gate_tables(layer)
    encodings: dict[Encoding, Tensor] = {}
    for name, blocks in transforms.items():
        z = Rows(linear(layer.dropout(emb), blocks[0].linear.weight))
        encodings |= _pooled_sums(z, {name: blocks}, gates, rows, subgraphs)
    if "centroid" in layer.encodings:
        roots = emb.index_select(0, subgraphs.centroid)
        encodings["centroid"] = gated_roots(roots, gates, rows, subgraphs)
    return encodings


def _pooled_sums(
    z: Rows,
    transforms: dict[Encoding, list[Block]],
    gates: dict[str, Tensor],
    rows: Tensor,
    subgraphs: RootedSubgraphs,
) -> dict[Encoding, Tensor]:
    """Sum the gated outputs of MLPs, [s, c] or [n, c]; their first Linears gave `z`."""
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
