"""GNN-AK layers with any base GNN: fused messages of GINE, hop tables, and pools."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv

from gnnak.fast.kernels import has_fast_kernels, kernels_for, kernels_of_backward
from gnnak.fast.kernels.records import (
    MOST_HOP_LINEARS,
    CentroidRows,
    Edges,
    GatedPool,
    HopLinears,
    Lifted,
)
from gnnak.fast.layers.convs import can_run, edge_states, has_dtype_of, run_conv
from gnnak.fast.layers.gather import mean_of
from gnnak.fast.layers.parts import (
    REDUCES,
    Serves,
    autocast_dtype,
    distinct_rows,
    edges_of,
    gates_or_logits,
    has_hooks,
    index_of,
    lift,
    table_grad,
    with_unit_stride,
)
from gnnak.fast.layers.ppgn import can_share_pairs, embedding_on_pairs
from gnnak.fast.layers.weights import encoding_rows, encoding_table, logit_tables
from gnnak.nn.calling import Inputs
from gnnak.nn.encodings import HopGate, HopTable, PairLinears, scaled_to_all
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import Axis, RootedSubgraphs
from gnnak.typing import Encoding, Reduce

WIDEST = 64
"""Largest width of hop embeddings that the `hop_tables` kernels support."""


_gates: ContextVar[dict[GNNAK, dict[str, Tensor]] | None]
_gates = ContextVar("gates", default=None)


@contextmanager
def shared_gates() -> Iterator[None]:
    """Context manager: let `gate_tables` return what `remember_gates` has stored."""
    token = _gates.set({})
    try:
        yield
    finally:
        _gates.reset(token)


def remember_gates(layer: GNNAK, gates: dict[str, Tensor]) -> None:
    known = _gates.get()
    if known is not None:
        known[layer] = gates


def gate_tables(layer: GNNAK) -> dict[str, Tensor]:
    """Return, for each encoding with gates, its gates at all hops, [t, c].

    If the layer reads more encodings of pairs than the distance, return `logit_tables`.
    """
    if layer.pair_linears is not None:
        return logit_tables(layer)
    known = _gates.get()
    if known is not None and layer in known:
        return known[layer]
    return _compute(layer, None)[1]


def _compute(
    layer: GNNAK, hop_linear: nn.Linear | None
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """Return the hop table to add to node states, or None, and the tables of gates."""
    hop_table, gates = layer.hop_table, layer.gates
    if hop_table is None:
        return None, {}
    weights = hop_weights(layer, hop_linear)
    if weights is None:
        d = hop_table.weight
        added = None if hop_linear is None else hop_linear(d)
        return added, {name: gate(d) for name, gate in gates.items()}
    embeddings, (matrices, biases) = weights
    found = list(_Tables.apply(embeddings, len(matrices), *matrices, *biases))
    added = None if hop_linear is None else found.pop(0)
    return added, dict(zip(gates, found, strict=True))


def hop_weights(
    layer: GNNAK, hop_linear: nn.Linear | None
) -> tuple[Tensor, HopLinears] | None:
    """Return hop embeddings, [t, h], and the Linears on them; None if not supported."""
    table = layer.hop_table
    if table is None or has_hooks(table):
        return None
    d = table.weight
    if not has_fast_kernels(d) or not _is_plain(d, d) or d.size(1) > WIDEST:
        return None
    weights, biases = [], []
    if hop_linear is not None:
        pair = _weights_of(hop_linear, d)
        if pair is None or pair[1] is not None:
            return None
        weights.append(pair[0])
    for gate in layer.gates._modules.values():
        pair = None
        if type(gate) is HopGate and not has_hooks(gate):
            pair = _weights_of(gate._modules["linear"], d)
        if pair is None or pair[1] is None:
            return None
        weights.append(pair[0])
        biases.append(pair[1])
    if not 0 < len(weights) <= MOST_HOP_LINEARS:
        return None
    if any(bias.size(0) != biases[0].size(0) for bias in biases):
        return None
    return d, HopLinears(weights, biases)


def _weights_of(
    linear: nn.Module | None, d: Tensor
) -> tuple[Tensor, Tensor | None] | None:
    """Return a Linear's weight and bias; None if no kernel can replace the Linear."""
    if type(linear) is not nn.Linear or has_hooks(linear) or "forward" in vars(linear):
        return None
    weight, bias = map(linear._parameters.get, ("weight", "bias"))
    if weight is None or not _is_plain(weight, d):
        return None
    if bias is not None and not _is_plain(bias, d):
        return None
    return weight, bias


def _is_plain(weight: Tensor, d: Tensor) -> bool:
    return (
        type(weight) is nn.Parameter
        and weight.dtype == d.dtype
        and weight.get_device() == d.get_device()
        and weight.is_contiguous()
    )


def _linears(weights: Sequence[Tensor], count: int) -> HopLinears:
    return HopLinears(list(weights[:count]), list(weights[count:]))


class _Tables(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, d: Tensor, count: int, *weights: Tensor
    ) -> tuple[Tensor, ...]:
        tables = kernels_for(d).hop_tables(d, _linears(weights, count))
        ctx.save_for_backward(d, *weights, *tables)
        ctx.counts = count, len(weights)
        return tuple(tables)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (d, *saved), (count, size) = ctx.saved_tensors, ctx.counts
        linears, tables = _linears(saved[:size], count), saved[size:]
        back = [grad.contiguous() for grad in grads]
        kernels = kernels_of_backward(d)
        grad_d, found = kernels.hop_tables_backward(d, linears, tables, back)
        return grad_d, None, *found.weights, *found.biases


class Copies(NamedTuple):
    """How to compute the states of node copies from node states and embeddings."""

    node: Tensor
    rows: Tensor
    """[m]: for each node copy, its row of the table of embeddings."""
    by_node: Groups
    add: bool
    """Whether embeddings are added to node states, and not appended."""
    dtype: torch.dtype | None
    """Dtype of the states. If None, the wider dtype of node states and embeddings."""


def lifted_gine_sum(
    x: Tensor,
    table: Tensor | None,
    e: Tensor,
    eps: Tensor,
    copies: Copies,
    edges: Edges,
    linears: HopLinears | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Return GINE's sums of messages, [m, w], and the tables of gates, [t, c] each.

    The states of node copies are computed from `x` and `table`, as in `plain.lift`. If
    `linears` are given, the first maps `table` to embeddings, which are added to node
    states. The others map `table` to gates.
    """
    matrices, biases = linears or ((), ())
    summed, *gates = _LiftedGineSum.apply(
        x, table, e, eps, copies, edges, len(matrices), *matrices, *biases
    )
    return summed, gates


class _LiftedGineSum(torch.autograd.Function):
    """Autograd function of `lifted_gine_sum`; `weights` are matrices, then biases."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        table: Tensor | None,
        e: Tensor,
        eps: Tensor,
        copies: Copies,
        edges: Edges,
        count: int,
        *weights: Tensor,
    ) -> tuple[Tensor, ...]:
        kernels, added, gates = kernels_for(x), table, []
        if count:
            added, *gates = kernels.hop_tables(table, _linears(weights, count))
        c = _states(kernels, x, added, copies)
        ctx.save_for_backward(x, table, e, eps, *weights, added, *gates)
        ctx.copies, ctx.edges, ctx.counts = copies, edges, (count, len(weights))
        return kernels.messages(c, e, eps, edges), *gates

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *grad_gates: Tensor) -> tuple[Any, ...]:
        x, table, e, eps, *others = ctx.saved_tensors
        (count, size), (_, rows, by_node, add, _) = ctx.counts, ctx.copies
        kernels, linears = kernels_of_backward(x), _linears(others[:size], count)
        tables, needed = others[size:], ctx.needs_input_grad
        if count and torch.is_grad_enabled():
            # For a second derivative, recompute the tables: the added table is not an
            # output of this function, so autograd has no gradient for it.
            tables = kernels.hop_tables(table, linears)
        c = _states(kernels, x, tables[0], ctx.copies)
        grad_c, grad_e, grad_eps = kernels.messages_backward(
            grad.contiguous(), c, e, eps, ctx.edges, None, needed[3]
        )
        grad_x, grad_table = None, None
        of_weights: Sequence[Tensor | None] = [None] * size
        of_x, of_table = (
            (grad_c, grad_c) if add else grad_c.tensor_split([x.size(1)], 1)
        )
        if needed[0]:
            grad_x = kernels.sum_by(of_x, by_node, x.dtype)
        if needed[1] or any(needed[7:]):
            added = tables[0]
            grad_table = kernels.table_sum(of_table, rows, added.size(0), added.dtype)
            if count:
                grads = [grad_table, *(each.contiguous() for each in grad_gates)]
                grad_table, of_linears = kernels.hop_tables_backward(
                    table, linears, tables, grads
                )
                of_weights = [*of_linears.weights, *of_linears.biases]
        return grad_x, grad_table, grad_e, grad_eps, None, None, None, *of_weights


def _states(
    kernels: ModuleType, x: Tensor, table: Tensor | None, copies: Copies
) -> Tensor | Lifted:
    node, rows, _, add, dtype = copies
    if table is not None and add:
        dtype = dtype or torch.promote_types(x.dtype, table.dtype)
        x, table = (each.to(dtype).contiguous() for each in (x, table))
        return Lifted(x, table, node, rows)
    return kernels.lift(x, table, node, rows, add, dtype)


SMALL_HOP_TABLE = 128
"""Largest number of rows of a hop table (one per distance) in fused layers."""
POOL_BY: dict[Encoding, Axis] = {"subgraph": "subgraph", "context": "node"}
"""Maps each pooled encoding to what it groups node copies by: subgraph or node."""


def gated_pools(
    states: Tensor,
    tables: Sequence[Tensor | None],
    rows: Tensor,
    pools: Sequence[GatedPool],
    subgraphs: RootedSubgraphs,
) -> tuple[list[Tensor], Tensor]:
    """Return gated sums of each pool, [groups, c], and the roots' states, [s, c]."""
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
        gates = [gates_or_logits(table, rows) for table in tables]
        index = index_of(rows)
        summed = kernels.gated_sums(states, gates, pools, index)
        return *summed, states.index_select(0, centroid)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        states, rows, centroid, subgraph, *tables = ctx.saved_tensors
        *of_sums, of_centroids = map(with_unit_stride, grads)
        centroids = CentroidRows(of_centroids, centroid, subgraph)
        gates = [gates_or_logits(table, rows) for table in tables]
        index = index_of(rows)
        grad_states, of_gates = kernels_of_backward(states).gated_sums_backward(
            states, of_sums, gates, ctx.pools, index, centroids
        )
        if index is None:
            of_gates = [
                None if grad is None else table_grad(grad, rows, table.dtype)
                for grad, table in zip(of_gates, tables, strict=True)
            ]
        return grad_states, None, None, None, *of_gates


def fused_embedding(
    serves: Serves,
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | Inputs | None,
) -> Tensor:
    if not serves(x) or isinstance(edge_attr, Inputs):
        return NotImplemented
    if can_share_pairs(layer):
        return embedding_on_pairs(layer, x, subgraphs, edge_attr)
    if not _can_fuse_conv(layer, x, subgraphs, edge_attr):
        return NotImplemented
    dtype = autocast_dtype(x)
    edge_attr = distinct_rows(edge_attr)
    rows = encoding_rows(layer, subgraphs, dtype or x.dtype)
    edges = edges_of(subgraphs, edge_attr)
    add, conv = layer.hop_linear is not None, layer.gnn
    if layer.pair_linears is not None or not isinstance(conv, GINEConv):
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
    if not has_usual_encodings(layer) or layer.calling.keywords is not None:
        return False
    width, conv = x.size(1), layer.gnn
    if layer.hop_linear is None:
        width += layer.options.hop_channels
    return has_dtype_of(conv, x, e) and can_run(conv, e, width)


def _embeddings(layer: GNNAK) -> Tensor | None:
    """Return the table of embeddings in the base GNN's input, [t, h], or None."""
    if layer.hop_linear is None:
        return encoding_table(layer)
    if layer.pair_linears is not None:
        return layer.hop_linear(encoding_table(layer))
    added, gates = _compute(layer, layer.hop_linear)
    remember_gates(layer, gates)
    return added


def is_small(table: HopTable | None) -> bool:
    return table is None or len(table.weight) <= SMALL_HOP_TABLE


def has_usual_encodings(layer: GNNAK) -> bool:
    """Return whether kernels can replace the modules of encodings d and of gates."""
    pairs, gates = layer.pair_linears, layer.gates
    if pairs is None:
        return is_small(layer.hop_table)
    known = {PairLinears, HopGate, nn.Linear, nn.ModuleDict}
    for part in (*pairs.modules(), *gates.modules()):
        if type(part) not in known or has_hooks(part) or "forward" in vars(part):
            return False
    biased = all(cast(HopGate, gate).linear.bias is not None for gate in gates.values())
    unbiased = all(linear.bias is None for linear in pairs.linears.values())
    return biased and unbiased and is_small(layer.hop_table)


def can_fuse_pools(
    layer: GNNAK, subgraphs: RootedSubgraphs, context_reduce: Reduce
) -> bool:
    known = subgraphs.num_nodes is not None and subgraphs.num_copies > 0
    pools = any(name != "centroid" for name in layer.encodings)
    reduces = {layer.reduce, context_reduce} <= set(REDUCES)
    fits = reduces and not layer.transforms and has_usual_encodings(layer)
    return known and pools and fits


def pooled_encodings(
    layer: GNNAK, emb: Tensor, subgraphs: RootedSubgraphs, context_reduce: Reduce
) -> dict[Encoding, Tensor]:
    """Compute the encodings of a layer from the output of its base GNN, [m, c]."""
    gates, dtype = gate_tables(layer), autocast_dtype(emb) or emb.dtype
    rows = encoding_rows(layer, subgraphs, dtype)
    pools: dict[Encoding, GatedPool] = {
        "subgraph": GatedPool(subgraphs.by("subgraph"), subgraphs.subgraph),
        "context": GatedPool(subgraphs.by("node"), subgraphs.node),
    }
    names: list[Encoding] = [name for name in layer.encodings if name != "centroid"]
    tables, used = [gates.get(name) for name in names], [pools[name] for name in names]
    sums, roots = gated_pools(emb, tables, rows, used, subgraphs)
    encodings: dict[Encoding, Tensor] = dict(zip(names, sums, strict=True))
    roots = gated_roots(roots, gates, rows, subgraphs).to(roots.dtype)
    encodings["centroid"] = roots
    return reduced(layer, encodings, subgraphs, context_reduce)


def gated_roots(
    roots: Tensor, gates: dict[str, Tensor], rows: Tensor, subgraphs: RootedSubgraphs
) -> Tensor:
    """Multiply the states of roots, [s, c], by their gates, if there are any."""
    gate = gates.get("centroid")
    if gate is None:
        return roots
    if rows.dim() == 1:
        return roots * gate[0]
    rows = rows.index_select(0, subgraphs.centroid)
    return roots * torch.sigmoid(rows @ gate.to(rows.dtype))


def reduced(
    layer: GNNAK,
    sums: dict[Encoding, Tensor],
    subgraphs: RootedSubgraphs,
    context_reduce: Reduce,
) -> dict[Encoding, Tensor]:
    """Turn sums into encodings: divide for means, scale up for dropped subgraphs."""
    encodings = {name: sums[name] for name in layer.encodings}
    for name, axis in POOL_BY.items():
        reduce = context_reduce if name == "context" else layer.reduce
        if name in encodings and reduce == "mean":
            encodings[name] = mean_of(encodings[name], subgraphs.by(axis))
        elif name in encodings and name == "context":
            encodings[name] = scaled_to_all(encodings[name], subgraphs)
    return encodings
