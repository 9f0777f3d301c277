"""GNN-AK layers around GINE, run on the fused and on the general path."""

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
    "gin-ak, one width": BARE | {"out": CHANNELS},
    "two convs": {"convs": 2},
    "two products": {"options": LayerOptions(mlp_layers=2, gate_centroid=True)},
    "two products, no gates": BARE | {"options": LayerOptions(mlp_layers=2)},
    "gated centroid": {"options": LayerOptions(mlp_layers=1, gate_centroid=True)},
    "means": {"reduce": "mean"},
    "no centroid": {"encodings": ("subgraph", "context")},
    "no subgraph": {"encodings": ("centroid", "context")},
    "no context": {"encodings": ("centroid", "subgraph")},
    "fused by sums": {"fuse": "sum"},
    "gates alone": {"encodings": ("context", "subgraph"), "reduce": "mean"},
}


def make_layer(convs=1, hop_channels=HOPS, out=OUT, dropout=0.0, conv=gine, **options):
    """A layer in float64; all parameters and statistics are random."""
    options = {"options": LayerOptions(mlp_layers=1), "max_hops": 3} | options
    width = CHANNELS + (hop_channels if options.get("hop") != "add" else 0)
    stack = Stack([conv(width) for _ in range(convs)], width, dropout)
    layer = GNNAK(stack, CHANNELS, out, hop_channels=hop_channels, **options).double()
    randomize(layer)
    return layer


def hops_of(options):
    return {k: v for k, v in options.items() if k == "hop_channels"}


def randomize(module: nn.Module) -> None:
    """Draw parameters and statistics anew, so that no ReLU is asked about a zero."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5)
        for norm in module.modules():
            if isinstance(norm, BatchNorm):
                norm.running_mean.normal_()
                norm.running_var.uniform_(0.5, 2)


def inputs(edge_index, num_nodes, hop_channels=HOPS, num_hops=2):
    """Node states, rooted subgraphs, edge states."""
    edge_attr = torch.randn(edge_index.size(1), CHANNELS + hop_channels).double()
    x = torch.randn(num_nodes, CHANNELS).double()
    return x, egonets(edge_index, num_nodes, num_hops), edge_attr


def random_graph(num_nodes=12, num_edges=40):
    """A multigraph with self loops and parallel edges."""
    return torch.randint(num_nodes - 1, (2, num_edges)), num_nodes


def both(layer, x, subgraphs, edge_attr):
    """Everything that a layer computes and changes, fused and not."""
    found = []
    for fused in (True, False):
        with path(fused):
            found.append(computed(copy.deepcopy(layer), x, subgraphs, edge_attr))
    return found


def computed(layer, x, subgraphs, edge_attr):
    """Output, gradients of inputs and parameters, and statistics."""
    x, edge_attr = (t.detach().clone().requires_grad_() for t in (x, edge_attr))
    out = layer(x, subgraphs, edge_attr)
    weights = torch.linspace(-1, 2, out.numel(), device=out.device).view_as(out)
    (out * weights).sum().backward()
    found = {"out": out.detach(), "x": x.grad, "edge_attr": edge_attr.grad}
    return {name: _or_zero(value, out) for name, value in found.items()} | state(layer)


def state(module: nn.Module):
    """Gradients of parameters and all buffers, by name."""
    gradients = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in module.named_parameters()
    }
    return gradients | dict(module.named_buffers())


def _or_zero(value, like):
    return like.new_zeros(()) if value is None else value
