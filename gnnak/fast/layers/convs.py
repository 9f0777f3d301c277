"""PyG's convs on rooted subgraphs, with messages that are not stored."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINConv, GINEConv, MessagePassing, SAGEConv
from torch_geometric.nn.aggr import MeanAggregation

from gnnak.fast.kernels import kernels_for, kernels_of_backward
from gnnak.fast.kernels.records import Edges, EdgeStates
from gnnak.fast.layers.gcn import fits_gcn, run_gcn
from gnnak.fast.layers.parts import has_hooks
from gnnak.fast.layers.rows import Rows
from gnnak.nn.base.convs import GCN
from gnnak.nn.calling.masks import explained_convs
from gnnak.nn.copies import Messages
from gnnak.nn.family.gnn import Conv
from gnnak.nn.features import CategoricalEncoder, ConstantEncoder
from gnnak.nn.padding import on_copies
from gnnak.subgraphs.across import AcrossEdges
from gnnak.subgraphs.groups import Groups, group
from gnnak.subgraphs.rooted import RootedSubgraphs

METHODS = {"propagate", "message", "aggregate", "update", "message_and_aggregate"}
"""A conv is not fused if one of these methods was replaced on the object itself."""
HOOKED = ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
"""Methods of a conv for which PyG lets users register hooks."""
HOOKS = tuple(
    f"_{method}_forward_{kind}" for method in HOOKED for kind in ("hooks", "pre_hooks")
)
"""Attributes in which a conv stores the hooks of its methods."""


def can_run(conv: nn.Module, e: Tensor | None, width: int) -> bool:
    """Return whether `run_conv` computes the same result as a conv.

    Args:
        conv: Any module.
        e: Edge states, [e, c], or weights, [e]; None if there are none.
        width: Width of the conv's input.
    """
    if type(conv) not in RUNNERS or has_hooks(conv) or _is_changed(conv):
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
        means = isinstance(conv.aggr_module, MeanAggregation)
        return means and not conv.normalize and not conv.project
    return conv.aggr == "add"


def _is_changed(conv: MessagePassing) -> bool:
    """Return whether a conv has hooks of its methods, other methods or unusual options.

    Unusual options are messages from target to source, and decomposed layers.
    """
    own = vars(conv)
    return (
        any(map(own.get, HOOKS))
        or conv.flow != "source_to_target"
        or conv.decomposed_layers > 1
        or not METHODS.isdisjoint(own)
    )


def run_conv(conv: nn.Module, c: Rows, e: Tensor | None, edges: Edges) -> Tensor:
    """Apply a conv to the nodes of all rooted subgraphs.

    Args:
        conv: A conv that `can_run` accepts.
        c: States of the m node copies (nodes as they occur in one subgraph), [m, w].
        e: States of the edges of the graph, [e, c]; None if there are none.
        edges: The edges between node copies, such as those inside each subgraph.

    Returns:
        The output of the conv, one row per node copy.
    """
    return RUNNERS[type(conv)](conv, c, e, edges)


def _run_gine(conv: GINEConv, c: Rows, e: Tensor | None, edges: Edges) -> Tensor:
    """Apply a GINE conv in every rooted subgraph; arguments as in `run_conv`."""
    states = edge_states(conv, e)
    return conv.nn(_GineSum.apply(c.values, states, conv.eps, edges))


def edge_states(conv: GINEConv, e: Tensor | None) -> Tensor:
    """Return edge states as wide as the node states of a GINE conv.

    The Linear is applied to the edges of the graph, which are fewer than edge copies
    (edges as they occur in one rooted subgraph).

    Args:
        conv: The conv; it may have a Linear for edge states.
        e: States of the edges of the graph, [e, c]; must not be None.
    """
    assert e is not None
    return e if conv.lin is None else conv.lin(e)


def _run_gin(conv: GINConv, c: Rows, e: Tensor | None, edges: Edges) -> Tensor:
    """Apply a GIN conv in every rooted subgraph; `e` is None."""
    summed = neighbour_sum(c.values, edges)
    return conv.nn(summed + (1 + conv.eps).to(summed.dtype) * c.values)


def _run_gcn(conv: GCNConv, c: Rows, e: Tensor | None, edges: Edges) -> Tensor:
    """Apply a GCN conv in every rooted subgraph; `e` is None."""
    rows, _ = run_gcn(conv, c, None, edges, norm_follows=False)
    return rows.values


def _run_sage(conv: SAGEConv, c: Rows, e: Tensor | None, edges: Edges) -> Tensor:
    """Apply a SAGE conv in every rooted subgraph; `e` is None."""
    summed = neighbour_sum(c.values, edges)
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
"""For each type of conv, the function that applies it in every rooted subgraph."""


def neighbour_sum(c: Tensor, edges: Edges) -> Tensor:
    """Return the sum of $c_j$ over all edges j -> i, for each node copy i, [m, w].

    Args:
        c: States of the m node copies (nodes as they occur in one subgraph), [m, w].
        edges: The edges of all rooted subgraphs.
    """
    return _NeighbourSum.apply(c, edges)


class _GineSum(torch.autograd.Function):
    """Autograd function of GINE's sums, $(1 + eps) c_i + sum_j ReLU(c_j + e_{ji})$."""

    @staticmethod
    def forward(ctx: Any, c: Tensor, e: Tensor, eps: Tensor, edges: Edges) -> Tensor:
        ctx.save_for_backward(c, e, eps)
        ctx.edges = edges
        return kernels_for(c).messages(c, EdgeStates(e), eps, edges)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, e, eps = ctx.saved_tensors
        given = (grad.contiguous(), c, EdgeStates(e), eps, ctx.edges, None)
        learned = ctx.needs_input_grad[2]
        grads = kernels_of_backward(c).messages_backward(*given, with_eps=learned)
        return *grads, None


class _NeighbourSum(torch.autograd.Function):
    """Autograd function of `neighbour_sum`."""

    @staticmethod
    def forward(ctx: Any, c: Tensor, edges: Edges) -> Tensor:
        ctx.edges = edges
        return _summed(c, edges.source, edges.by_target, kernels_for(c))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        edges, kernels = ctx.edges, kernels_of_backward(grad)
        return _summed(grad, edges.target, edges.by_source, kernels), None


def _summed(values: Tensor, end: Tensor, groups: Groups, kernels: ModuleType) -> Tensor:
    """Sum, for each group of edges, the states of the nodes at one end of these edges.

    Args:
        values: States of the m node copies (nodes as they occur in one subgraph),
            [m, w].
        end: For each of the f edges, the node copy whose state is added, [f].
        groups: The edges of each group.
        kernels: The package of kernels.

    Returns:
        One row of sums per group.
    """
    order = end if groups.order is None else end.index_select(0, groups.order)
    members = Groups(groups.ptr, order.contiguous())
    return kernels.sum_by(values.contiguous(), members)


def can_fuse_messages(
    conv: Messages, z: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | None
) -> TypeGuard[Conv]:
    """Return whether `fused_messages` computes the same result as a conv.

    The edge encoder must encode each edge by itself, so that it can encode the edges of
    the graph instead of the edge copies, which are many more.

    Args:
        conv: The GNN that computes the messages.
        z: States of the m node copies (nodes as they occur in one subgraph), [m, c].
        subgraphs: The rooted subgraphs.
        edge_attr: Attributes of the edges of the graph; None if there are none.
    """
    known = subgraphs.num_nodes is not None and subgraphs.num_edges is not None
    if type(conv) is not Conv or has_hooks(conv) or explained_convs(conv.gnn):
        return False
    if not known or not subgraphs.num_copies or conv.calling.keywords is not None:
        return False
    e = _states_like(conv, edge_attr)
    if e is NotImplemented:
        return False
    if not torch.is_autocast_enabled(z.device.type):
        dtype = next(conv.gnn.parameters(), z).dtype
        if z.dtype != dtype or (e is not None and e.dtype != dtype):
            return False
    return can_run(conv.gnn, e, z.size(1))


def _states_like(conv: Conv, edge_attr: Tensor | None) -> Tensor | None:
    """Return a tensor with the width and dtype of the edge states; None if none exist.

    The result is `NotImplemented` if the edge encoder cannot encode the edges of the
    graph instead of the edge copies.
    """
    encoder = conv.edge_encoder
    if not conv.reads_edges or encoder is None:
        return edge_attr if conv.reads_edges else None
    if any(map(has_hooks, encoder.modules())):
        return NotImplemented
    if type(encoder) is CategoricalEncoder:
        return encoder.tables.weight
    return encoder.weight if type(encoder) is ConstantEncoder else NotImplemented


def fused_messages(
    conv: Conv,
    z: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | None,
    edges: Edges,
) -> Tensor:
    """Apply a conv to node copies along given edges.

    Args:
        conv: A conv that `can_fuse_messages` accepts.
        z: States of the m node copies (nodes as they occur in one subgraph), [m, c].
        subgraphs: The rooted subgraphs.
        edge_attr: Attributes of the edges of the graph; None if there are none.
        edges: The edges between node copies.

    Returns:
        The output of the conv, one row per node copy.
    """
    e = edge_attr if conv.reads_edges else None
    if conv.reads_edges and conv.edge_encoder is not None:
        e = conv.edge_encoder(edge_attr, subgraphs.num_edges)
    kind = z.device.type
    if torch.is_autocast_enabled(kind):
        z = z.to(torch.get_autocast_dtype(kind))
    with on_copies(subgraphs):
        return run_conv(conv.gnn, Rows(z.contiguous()), e, edges)


def across_groups(subgraphs: RootedSubgraphs, links: AcrossEdges) -> Edges:
    """Return edges across rooted subgraphs, sorted by target, with their groups.

    The result is cached after first use.

    Args:
        subgraphs: The rooted subgraphs.
        links: The edges across subgraphs, in any order.
    """
    return subgraphs.once("across groups", lambda: _grouped(subgraphs, links))


def _grouped(subgraphs: RootedSubgraphs, links: AcrossEdges) -> Edges:
    assert subgraphs.num_edges is not None
    size = subgraphs.num_copies
    target, order = torch.sort(links.edge_index[1], stable=True)
    source = links.edge_index[0].index_select(0, order)
    edge = links.edge.index_select(0, order)
    return Edges(
        source,
        target,
        edge,
        group(target, size, in_order=True),
        group(source, size),
        group(edge, subgraphs.num_edges),
    )
