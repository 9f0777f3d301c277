"""Fused layers of SSWL, SSWL+ and Local 2-FGNN, which add up the outputs of MLPs.

The first Linears of all MLPs write to one tensor, side by side. The second Linears are
one matrix product, since W x + V y = [W, V] [x, y], so that no outputs are added up.
"""

from itertools import islice
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch_geometric.nn import GINEConv

from gnnak.fast.kernels import kernels_for
from gnnak.fast.layers.convs import conv_inputs, gine_sum
from gnnak.fast.layers.norm import as_given, norm_relu, norm_relu_joint_linear
from gnnak.fast.layers.parts import (
    NORMS,
    Serves,
    TwoLinears,
    autocast_dtype,
    can_fuse_norm,
    has_fused_dtype,
    has_hooks,
    implements,
    two_linears,
)
from gnnak.nn.copies import across_links, at_centroid, to_nodes
from gnnak.nn.family.gnn import Conv
from gnnak.nn.family.sswl import L2FGNNLayer, SSWLLayer, SSWLPlusLayer
from gnnak.subgraphs.rooted import RootedSubgraphs


@implements("update_copies")
def update_copies(
    serves: Serves,
    layer: SSWLLayer,
    h: Tensor,
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    edge_attr: Tensor | None,
) -> Tensor:
    """Compute new states of node copies, [m, c], in training."""
    mlps = _mlps_of(layer)
    if mlps is None or not serves(h) or not _can_fuse(layer, mlps, h, subgraphs):
        return NotImplemented
    h = h.to(autocast_dtype(h) or h.dtype).contiguous()
    of_layer = _l2fgnn_inputs if type(layer) is L2FGNNLayer else _sswl_inputs
    inputs = of_layer(serves, layer, h, subgraphs, edge_index, edge_attr)
    if inputs is NotImplemented:
        return NotImplemented
    hidden = _hidden_states(inputs, [mlp.first.weight for mlp in mlps])
    norms, linears = [mlp.norm for mlp in mlps], [mlp.second for mlp in mlps]
    out = norm_relu_joint_linear(norms, hidden, linears)
    return norm_relu(cast(Any, layer.norm), out)


def _mlps_of(layer: SSWLLayer) -> list[TwoLinears] | None:
    """Return the MLPs of a layer, or None if the layer cannot be fused."""
    if type(layer) not in (SSWLLayer, SSWLPlusLayer, L2FGNNLayer):
        return None
    if _is_changed(layer):
        return None
    modules: list[nn.Module] = []
    if isinstance(layer, L2FGNNLayer):
        modules += layer.mlps
    else:
        for conv in (layer.conv, layer.across):
            if type(conv) is not Conv or type(conv.gnn) is not GINEConv:
                return None
            modules.append(cast(nn.Module, conv.gnn.nn))
    if isinstance(layer, SSWLPlusLayer):
        modules.append(layer.mlp)
    found = [parts for parts in map(two_linears, modules) if parts is not None]
    return found if len(found) == len(modules) else None


METHODS = {"messages", "neighbour_sums", "edge_states"}
"""A layer is not fused if one of these methods was replaced in the object itself."""


def _is_changed(layer: SSWLLayer) -> bool:
    """Return whether modules in a layer have hooks, or methods were replaced."""
    inner = [*islice(layer.modules(), 1, None)]
    replaced = any("forward" in vars(m) for m in inner if not isinstance(m, NORMS))
    return replaced or any(map(has_hooks, inner)) or not METHODS.isdisjoint(vars(layer))


def _can_fuse(
    layer: SSWLLayer, mlps: list[TwoLinears], h: Tensor, subgraphs: RootedSubgraphs
) -> bool:
    if subgraphs.num_nodes is None or not has_fused_dtype(layer, h, None):
        return False
    if not can_fuse_norm(layer.norm, h):
        return False
    width = h.size(1)
    shapes = {tuple(mlp.first.weight.shape) for mlp in mlps}
    outputs = {mlp.second.out_features for mlp in mlps}
    norms: Any = [layer.norm, *(mlp.norm for mlp in mlps)]
    real = {id(as_given(norm).real_rows()) for norm in norms}
    trains = all(norm.training for norm in norms)
    alike = len(shapes) == len(real) == 1 and shapes.pop()[1] == width
    fits = alike and outputs == {layer.norm.num_features}
    return trains and fits and _has_usual_eps(layer, mlps)


def _has_usual_eps(layer: SSWLLayer, mlps: list[TwoLinears]) -> bool:
    """Return whether eps is one number, or in Local 2-FGNN one number per MLP."""
    if not isinstance(layer, SSWLPlusLayer | L2FGNNLayer):
        return True
    shape = (len(mlps),) if isinstance(layer, L2FGNNLayer) else ()
    return isinstance(layer.eps, Tensor) and layer.eps.shape == shape


class Inputs(NamedTuple):
    """The inputs of the MLPs: MLP i reads `sums[i]`, or `states` if it has no sum."""

    h: Tensor
    """[m, c]: the states of node copies."""
    sums: list[Tensor]
    """[m, c] each: the sums of messages that the first MLPs read."""
    eps: Tensor | None = None
    """[k] or a scalar: the last MLPs also read (1 + eps) h."""
    states: "NodeStates | None" = None


class NodeStates(NamedTuple):
    """The states of nodes that the last MLP reads at each node copy."""

    subgraphs: RootedSubgraphs
    pooled: bool
    """Whether the state of a node is the sum of all its copies. If not, it is the state
    of the node as a root."""

    def compute(self, h: Tensor) -> Tensor:
        if self.pooled:
            return kernels_for(h).sum_by(h, self.subgraphs.by("node"))
        roots = at_centroid(h, self.subgraphs)
        return to_nodes(roots, self.subgraphs, self.subgraphs.known_num_nodes)

    def add_gradient(self, grad_h: Tensor, grad: Tensor) -> None:
        """Add to `grad_h` the gradient of `h` that `grad`, [n, c], causes."""
        if self.pooled:
            kernels_for(grad).add_lifted(grad_h, grad, self.subgraphs.node)
        else:
            of_roots = grad.index_select(0, self.subgraphs.root)
            grad_h.index_add_(0, self.subgraphs.centroid, of_roots)


def _sswl_inputs(
    serves: Serves,
    layer: SSWLLayer,
    h: Tensor,
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    edge_attr: Tensor | None,
) -> Inputs:
    sums: list[Tensor] = []
    links = across_links(subgraphs, edge_index, layer.whole)
    for conv, along in ((layer.conv, None), (layer.across, links)):
        given = conv_inputs(serves, conv, h, subgraphs, edge_attr, along)
        if given is NotImplemented:
            return NotImplemented
        summed, h = gine_sum(cast(GINEConv, conv.gnn), *given)
        sums.append(summed)
    if not isinstance(layer, SSWLPlusLayer):
        return Inputs(h, sums)
    return Inputs(h, sums, layer.eps, NodeStates(subgraphs, pooled=False))


def _l2fgnn_inputs(
    serves: Serves, layer: SSWLLayer, h: Tensor, subgraphs: RootedSubgraphs, *edges: Any
) -> Inputs:
    layer = cast(L2FGNNLayer, layer)
    sums = layer.neighbour_sums(h, subgraphs, *edges)
    states = NodeStates(subgraphs, pooled=True) if layer.context else None
    return Inputs(h, [each.to(h.dtype) for each in sums], layer.eps, states)


def _hidden_states(inputs: Inputs, weights: list[Tensor]) -> Tensor:
    """Apply the first Linears of all MLPs to their inputs, side by side, [m, t w]."""
    h, sums, eps, states = inputs
    own = None
    if eps is not None:
        # W (1 + eps) h is computed as ((1 + eps) W) h: weights are smaller than states.
        factors = 1 + eps.view(-1, 1, 1)
        own = (factors * torch.stack(weights[-len(factors) :])).flatten(0, 1)
    return _HiddenStates.apply(h, own, states, len(sums), *sums, *weights)


class _HiddenStates(torch.autograd.Function):
    """Autograd function: column block i of the result is W_i x_i, for t MLPs.

    x_i is a sum or, for the last MLP, states of nodes. The matrix `own`, [k w, c], maps
    the states `h` to what is added to the last k blocks.
    """

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        own: Tensor | None,
        states: NodeStates | None,
        size: int,
        *parts: Tensor,
    ) -> Tensor:
        sums, weights = parts[:size], [each.to(h.dtype) for each in parts[size:]]
        width, count = weights[0].size(0), len(weights)
        hidden = h.new_empty(h.size(0), count * width)
        blocks, empty = hidden.chunk(count, dim=1), count
        if own is not None:
            empty -= len(own) // width
            torch.mm(h, own.t().to(h.dtype), out=hidden[:, empty * width :])
        for i, (summed, weight) in enumerate(zip(sums, weights, strict=False)):
            # With beta = 0, what is in the first blocks, which are empty, is ignored.
            blocks[i].addmm_(summed, weight.t(), beta=int(i >= empty))
        of_nodes = None
        if states is not None:
            of_nodes = states.compute(h)
            added = of_nodes @ weights[-1].t()
            kernels_for(h).add_lifted(blocks[-1], added, states.subgraphs.node)
        ctx.save_for_backward(None if own is None else h, own, of_nodes, *parts)
        ctx.states, ctx.size = states, size
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, own, of_nodes, *parts = ctx.saved_tensors
        sums, weights = parts[: ctx.size], [w.to(grad.dtype) for w in parts[ctx.size :]]
        blocks = grad.contiguous().chunk(len(weights), dim=1)
        grad_h, grad_own = None, None
        if own is not None:
            tail = grad[:, -len(own) :]
            grad_h, grad_own = tail @ own.to(grad.dtype), tail.t() @ h
        pairs = list(zip(blocks, sums, strict=False))
        of_sums = [block @ w for (block, _), w in zip(pairs, weights, strict=False)]
        of_weights = [block.t() @ summed for block, summed in pairs]
        if of_nodes is not None:
            by_node = ctx.states.subgraphs.by("node")
            back = kernels_for(grad).sum_by(blocks[-1], by_node)
            of_weights.append(back.t() @ of_nodes)
            ctx.states.add_gradient(grad_h, back @ weights[-1])
        return grad_h, grad_own, None, None, *of_sums, *of_weights
