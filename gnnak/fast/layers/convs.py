"""Run PyG's convs on rooted subgraphs without storing messages."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch_geometric.nn import GCNConv, GINConv, GINEConv, MessagePassing, SAGEConv
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation

from gnnak.distributed import several_processes
from gnnak.fast.kernels import kernels_for, kernels_of_backward
from gnnak.fast.kernels.records import Edges
from gnnak.fast.layers.norm import offset_grad
from gnnak.fast.layers.parts import (
    Recompute,
    Rows,
    Serves,
    autocast_dtype,
    distinct_rows,
    edges_of,
    has_hooks,
    has_many_rows,
    implements,
    recompute_function,
    saved_or_recomputed,
    to_save,
)
from gnnak.fast.layers.weights import once_in_call
from gnnak.nn.base.convs import GCN
from gnnak.nn.calling import Calling
from gnnak.nn.calling.call import explained_convs, first_weight
from gnnak.nn.copies import Messages
from gnnak.nn.family.gnn import Conv
from gnnak.nn.features import CategoricalEncoder, ConstantEncoder
from gnnak.nn.norm import on_copies
from gnnak.subgraphs.groups import Groups, group
from gnnak.subgraphs.induce import AcrossEdges
from gnnak.subgraphs.rooted import RootedSubgraphs

METHODS = {"propagate", "message", "aggregate", "update", "message_and_aggregate"}
"""A conv is not fused if one of these methods was replaced in the object itself."""
HOOKED = ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
"""Methods of a conv for which PyG lets users register hooks."""
HOOKS = tuple(
    f"_{method}_forward_{kind}" for method in HOOKED for kind in ("hooks", "pre_hooks")
)
"""Attributes in which a conv stores the hooks of its methods."""


def can_run(conv: nn.Module, e: Tensor | None, width: int) -> bool:
    if type(conv) not in RUNNERS or has_hooks(conv) or is_changed(conv):
        return False
    if type(conv) is GINEConv:
        has_states = e is not None and e.dim() == 2
        state_width = width if conv.lin is not None or e is None else e.size(1)
        return has_states and state_width == width and conv.aggr == "add"
    if e is not None:
        return False
    if isinstance(conv, GCNConv):
        return fits_gcn(conv, None)
    if type(conv) is SAGEConv:
        means = type(conv.aggr_module) is MeanAggregation
        return means and not conv.normalize and not conv.project
    return conv.aggr == "add"


def is_changed(conv: nn.Module) -> bool:
    if not isinstance(conv, MessagePassing):
        return False
    own, pool = vars(conv), conv.aggr_module
    return (
        any(map(own.get, HOOKS))
        or (conv.aggr == "add" and type(pool) is not SumAggregation)
        or conv.flow != "source_to_target"
        or conv.decomposed_layers > 1
        or not METHODS.isdisjoint(own)
    )


def has_dtype_of(conv: nn.Module, x: Tensor, e: Tensor | None) -> bool:
    """Return whether `x` and `e` have the conv's dtype; always True in autocast."""
    if torch.is_autocast_enabled(x.device.type):
        return True
    weight = first_weight(conv)
    dtype = x.dtype if weight is None else weight.dtype
    return x.dtype == dtype and (e is None or e.dtype == dtype)


def run_conv(conv: nn.Module, c: Rows, e: Tensor | None, edges: Edges) -> Tensor:
    return RUNNERS[type(conv)](conv, c, e, edges)


def _run_gine(conv: GINEConv, c: Rows, e: Tensor | None, edges: Edges) -> Tensor:
    summed, _ = gine_sum(conv, c, e, edges)
    return conv.nn(summed)


def gine_sum(
    conv: GINEConv, c: Rows, e: Tensor | None, edges: Edges
) -> tuple[Tensor, Tensor]:
    """Return GINE's sums of messages, [m, w], and `c.values`.

    If other functions read the returned `c.values`, the backward pass of the messages
    adds up all gradients of `c.values` in its kernel.
    """
    return _GineSum.apply(c.values, edge_states(conv, e), conv.eps, edges)


def edge_states(conv: GINEConv, e: Tensor | None) -> Tensor:
    assert e is not None
    return e if conv.lin is None else conv.lin(e)


def _run_gin(conv: GINConv, c: Rows, e: Tensor | None, edges: Edges) -> Tensor:
    summed = _NeighbourSum.apply(c.values, edges)
    return conv.nn(summed + (1 + conv.eps).to(summed.dtype) * c.values)


def _run_gcn(conv: GCNConv, c: Rows, e: Tensor | None, edges: Edges) -> Tensor:
    rows, _ = run_gcn(conv, c, None, edges, norm_follows=False)
    return rows.values


def _run_sage(conv: SAGEConv, c: Rows, e: Tensor | None, edges: Edges) -> Tensor:
    summed = _NeighbourSum.apply(c.values, edges)
    degree = edges.by_target.ptr.diff().clamp(min=1).to(summed.dtype)
    out = conv.lin_l(summed / degree[:, None])
    return out + conv.lin_r(c.values) if conv.root_weight else out


RUNNERS: dict[type, Callable[[Any, Rows, Tensor | None, Edges], Tensor]] = {
    GINEConv: _run_gine,
    GINConv: _run_gin,
    GCNConv: _run_gcn,
    GCN: _run_gcn,
    SAGEConv: _run_sage,
}


class _GineSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, c: Tensor, e: Tensor, eps: Tensor, edges: Edges
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(c, e, eps)
        ctx.set_materialize_grads(False)
        ctx.edges = edges
        return kernels_for(c).messages(c, e, eps, edges), c

    @staticmethod
    def backward(
        ctx: Any, grad: Tensor | None, more: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if grad is None:
            return more, None, None, None
        c, e, eps = ctx.saved_tensors
        kernels, with_eps = kernels_of_backward(c), ctx.needs_input_grad[2]
        more = None if more is None else more.contiguous()
        grads = kernels.messages_backward(
            grad.contiguous(), c, e, eps, ctx.edges, more, with_eps
        )
        return *grads, None


class _NeighbourSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, c: Tensor, edges: Edges) -> Tensor:
        ctx.edges = edges
        return _summed(c, edges.source, edges.by_target, kernels_for(c))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        edges, kernels = ctx.edges, kernels_of_backward(grad)
        return _summed(grad, edges.target, edges.by_source, kernels), None


def _summed(values: Tensor, end: Tensor, groups: Groups, kernels: ModuleType) -> Tensor:
    """Sum `values[end[i]]` over the edge copies i of each group."""
    order = end if groups.order is None else end.index_select(0, groups.order)
    members = Groups(groups.ptr, order.contiguous())
    return kernels.sum_by(values.contiguous(), members)


def fits_gcn(
    conv: GCNConv, e: Tensor | None, subgraphs: RootedSubgraphs | None = None
) -> bool:
    return (
        e is None
        and conv.normalize
        and conv.add_self_loops
        and not conv.improved
        and conv.aggr == "add"
        and conv.lin.bias is None
    )


def run_gcn(
    conv: GCNConv, c: Rows, e: Tensor | None, edges: Edges, norm_follows: bool
) -> tuple[Rows, Rows]:
    r"""Apply a GCN conv in every rooted subgraph; see `FusedConv.run`.

    With the conv's weight $W$ and bias $b$, the output for node copy $i$ is

    $$\frac{1}{\sqrt{d_i}} \Big(\frac{h_i}{\sqrt{d_i}} + \sum_{j \to i,\, j \neq i}
        \frac{h_j}{\sqrt{d_j}}\Big) + b \qquad h = c W^\top$$

    with $d_i$ = 1 + the number of edges $j \to i$, $j \neq i$, in the subgraph. As in
    PyG, self loops of the graph are ignored, and parallel edges are all counted.
    """
    h = _Gcn.apply(
        c.values, conv.lin.weight, conv.bias, edges, norm_follows, c.recompute
    )
    return Rows(h), c


class _Gcn(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        c: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        edges: Edges,
        norm_follows: bool,
        recompute: Recompute | None,
    ) -> Tensor:
        kernels, h = kernels_for(c), linear(c, matrix.to(c.dtype))
        scale = kernels.gcn_scale(h, edges)
        ctx.save_for_backward(scale, matrix, bias, *to_save(c, recompute))
        ctx.edges, ctx.norm_follows = edges, norm_follows
        ctx.recompute = recompute_function(recompute)
        return kernels.gcn_sum(h, scale, bias, edges.source, edges.by_target)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scale, matrix, bias, *saved = ctx.saved_tensors
        target, groups = ctx.edges.target, ctx.edges.by_source
        grad = grad.contiguous()
        kernels = kernels_of_backward(grad)
        grad_h = kernels.gcn_sum(grad, scale, None, target, groups)
        c = saved_or_recomputed(saved, ctx.recompute)
        grad_matrix = (grad_h.t() @ c.to(grad_h.dtype)).to(matrix.dtype)
        grad_bias = offset_grad(grad, bias, ctx.norm_follows)
        grad_c = (grad_h @ matrix.to(grad_h.dtype)).to(c.dtype)
        return grad_c, grad_matrix, grad_bias, None, None, None


@implements("inside", "pass_across")
def run_messages(
    serves: Serves,
    conv: Messages,
    z: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | None,
    links: AcrossEdges | None = None,
) -> Tensor:
    """Apply a conv to node copies, along `links` or along the edges of subgraphs."""
    inputs = conv_inputs(serves, conv, z, subgraphs, edge_attr, links)
    if inputs is NotImplemented:
        return NotImplemented
    with on_copies(subgraphs):
        return run_conv(cast(Conv, conv).gnn, *inputs)


class ConvInputs(NamedTuple):
    """The arguments of `run_conv`, apart from the conv."""

    c: Rows
    e: Tensor | None
    edges: Edges


def conv_inputs(
    serves: Serves,
    conv: Messages,
    z: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | None,
    links: AcrossEdges | None,
) -> ConvInputs:
    """Return what `run_messages` gives to `run_conv`, or `NotImplemented`."""
    known = subgraphs.num_nodes is not None and subgraphs.num_edges is not None
    # All processes must choose the same path, whatever their numbers of copies.
    some = subgraphs.num_copies or several_processes()
    if not serves(z) or not known or not some:
        return NotImplemented
    if type(conv) is not Conv or has_hooks(conv) or explained_convs(conv.gnn):
        return NotImplemented
    e = _states_like(conv, edge_attr)
    if e is NotImplemented or conv.calling.keywords is not None:
        return NotImplemented
    if not has_dtype_of(conv.gnn, z, e) or not can_run(conv.gnn, e, z.size(1)):
        return NotImplemented
    if conv.reads_edges and conv.edge_encoder is not None:
        e = distinct_rows(conv.edge_encoder(edge_attr, subgraphs.num_edges))
    z = z.to(autocast_dtype(z) or z.dtype)
    if links is None:
        edges = edges_of(subgraphs, e)
    else:
        edge_index, edge = links
        size, many = subgraphs.num_copies, has_many_rows(e)
        num_edges = subgraphs.num_edges if many else None

        def find() -> Edges:
            return _sorted_edges(edge_index, edge, size, num_edges)

        edges = subgraphs.once(Edges, find, "across", many)
    return ConvInputs(Rows(z.contiguous()), e, edges)


def _states_like(conv: Conv, edge_attr: Tensor | None) -> Tensor | None:
    """Return a tensor with the dtype and width of the encoded edge states."""
    encoder = conv.edge_encoder
    if not conv.reads_edges or encoder is None:
        return edge_attr if conv.reads_edges else None
    if any(map(has_hooks, encoder.modules())):
        return NotImplemented
    if type(encoder) is CategoricalEncoder:
        return encoder.tables.weight
    return encoder.weight if type(encoder) is ConstantEncoder else NotImplemented


def _sorted_edges(
    edge_index: Tensor, edge: Tensor, size: int, num_edges: int | None
) -> Edges:
    target, order = torch.sort(edge_index[1], stable=True)
    source, edge = (end.index_select(0, order) for end in (edge_index[0], edge))
    by_edge = None if num_edges is None else group(edge, num_edges)
    by_target = group(target, size, in_order=True)
    return Edges(source, target, edge, by_target, group(source, size), by_edge)


@implements("run_on_graph")
def run_messages_on_graph(
    serves: Serves,
    gnn: nn.Module,
    calling: Calling,
    x: Tensor,
    edge_index: Tensor,
    edge_states: Tensor | None,
    batch: Tensor,
) -> Tensor:
    """Apply a conv to whole graphs. Edges are sorted once for all layers of a model."""
    if not serves(x) or not x.numel() or not edge_index.numel():
        return NotImplemented
    if calling.keywords is not None or explained_convs(gnn):
        return NotImplemented
    fits = has_dtype_of(gnn, x, edge_states) and can_run(gnn, edge_states, x.size(1))
    if not fits:
        return NotImplemented
    e, num_edges = distinct_rows(edge_states), edge_index.size(1)
    many = has_many_rows(e)

    def find() -> Edges:
        edge = torch.arange(num_edges, device=edge_index.device)
        return _sorted_edges(edge_index, edge, x.size(0), num_edges if many else None)

    edges = once_in_call(f"edges of the graph, {many}", edge_index, find)
    if edges is None:
        return NotImplemented
    states = x.to(autocast_dtype(x) or x.dtype)
    return run_conv(gnn, Rows(states.contiguous()), e, edges)
