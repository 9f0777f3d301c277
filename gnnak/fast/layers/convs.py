"""PyG's GINE, GIN, GCN and SAGE convs on rooted subgraphs, without stored messages.

These functions serve any base GNN, such as a conv of a model that `gnnak.uplift` has
changed. They fuse only the messages; the conv's own MLP or Linear runs as usual. For
the paper's networks, `gnnak.fast.layers.stack` also fuses MLPs and norms.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

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
from gnnak.subgraphs.groups import Groups

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
