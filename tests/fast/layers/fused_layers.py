"""Random GNN-AK layers around GINE and their inputs, to run fused and in PyTorch."""

import copy

import torch
from torch import nn

from gnnak import GNNAK, LayerOptions
from gnnak.nn.base.convs import gine
from gnnak.nn.base.stack import Stack
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs import egonets
from tests.fast.backends import path

CHANNELS, HOPS, OUT = 4, 3, 6
BARE = {"hop_channels": 0, "encodings": ("centroid", "subgraph")}
LAYERS = {
    "gin-ak+": {},
    "gin-ak": BARE,
    "gin-ak, no projection": BARE | {"out": CHANNELS},
    "two convs": {"convs": 2},
    "two blocks": {"options": LayerOptions(mlp_layers=2, gate_centroid=True)},
    "two blocks, no gates": BARE | {"options": LayerOptions(mlp_layers=2)},
    "gated centroid": {"options": LayerOptions(mlp_layers=1, gate_centroid=True)},
    "mean pooling": {"reduce": "mean"},
    "no centroid": {"encodings": ("subgraph", "context")},
    "no subgraph": {"encodings": ("centroid", "context")},
    "no context": {"encodings": ("centroid", "subgraph")},
    "sum of encodings": {"fuse": "sum"},
    "no centroid, mean pooling": {
        "encodings": ("context", "subgraph"),
        "reduce": "mean",
    },
}
"""By name, the options of `make_layer`."""


def make_layer(convs=1, hop_channels=HOPS, out=OUT, dropout=0.0, conv=gine, **options):
    """Build a layer in float64 with random parameters and running statistics.

    `dropout` is that of the base GNN; `conv` builds a conv of a given width.
    """
    options = {"options": LayerOptions(mlp_layers=1), "max_hops": 3} | options
    width = CHANNELS + (hop_channels if options.get("hop") != "add" else 0)
    stack = Stack([conv(width) for _ in range(convs)], width, dropout)
    layer = GNNAK(stack, CHANNELS, out, hop_channels=hop_channels, **options).double()
    randomize(layer)
    return layer


def hops_of(options):
    """Return the entry "hop_channels" of a layer's options, if any, for `inputs`."""
    return {k: v for k, v in options.items() if k == "hop_channels"}


def randomize(module: nn.Module) -> None:
    """Set random parameters and running statistics, so that no ReLU gets exactly 0."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5)
        for norm in module.modules():
            if isinstance(norm, BatchNorm):
                norm.running_mean.normal_()
                norm.running_var.uniform_(0.5, 2)


def inputs(edge_index, num_nodes, hop_channels=HOPS, num_hops=2):
    """Return random node states, the egonets, and random edge states, in float64."""
    edge_attr = torch.randn(edge_index.size(1), CHANNELS + hop_channels).double()
    x = torch.randn(num_nodes, CHANNELS).double()
    return x, egonets(edge_index, num_nodes, num_hops), edge_attr


def random_graph(num_nodes=12, num_edges=40):
    """Return edges and number of nodes of a random graph.

    It may have self loops and parallel edges; the last node has no edges.
    """
    return torch.randint(num_nodes - 1, (2, num_edges)), num_nodes


def fused_and_plain(layer, x, subgraphs, edge_attr):
    """Return the results of `computed` for a layer, fused and in plain PyTorch."""
    found = []
    for fused in (True, False):
        with path(fused):
            found.append(computed(copy.deepcopy(layer), x, subgraphs, edge_attr))
    return found


def computed(layer, x, subgraphs, edge_attr):
    """Run a layer and its gradients; return output, gradients and buffers, by name."""
    x, edge_attr = (t.detach().clone().requires_grad_() for t in (x, edge_attr))
    out = layer(x, subgraphs, edge_attr)
    weights = torch.linspace(-1, 2, out.numel(), device=out.device).view_as(out)
    (out * weights).sum().backward()
    found = {"out": out.detach(), "x": x.grad, "edge_attr": edge_attr.grad}
    return {name: _or_zero(value, out) for name, value in found.items()} | state(layer)


def state(module: nn.Module):
    """Return the gradients of all parameters, and all buffers, by name."""
    gradients = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in module.named_parameters()
    }
    return gradients | dict(module.named_buffers())


def _or_zero(value, like):
    """Return a gradient, or a scalar 0 in place of None."""
    return like.new_zeros(()) if value is None else value
