"""Random GNN-AK layers around GINE and their inputs, to run fused and in PyTorch."""

import torch
from torch import nn

from gnnak import GNNAK, LayerOptions
from gnnak.backend import use_backend
from gnnak.fast.layers.layer import can_fuse
from gnnak.nn.base.convs import gine
from gnnak.nn.base.stack import Stack
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs import EgoNets, WithEncodings, structural_encodings
from gnnak.typing import LAYER_PAIRS
from tests.fast.backends import fused_everywhere, num_fused_layers
from tests.loading.test_padding import NEAR, assert_same_on_padded, padded_and_plain
from tests.models.zoo import small_network

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
GATED = LayerOptions(mlp_layers=1, gate_centroid=True)
PAIR_LAYERS = {
    "rrwp": {"pairs": ("distance", "rrwp")},
    "all pairs": {"pairs": LAYER_PAIRS},
    "resistance without the distance": {"pairs": ("resistance",)},
    "pairs, gated centroid": {"pairs": ("distance-counts",), "options": GATED},
    "pairs, gated centroid, no projection": {
        "pairs": ("distance", "resistance"),
        "options": GATED,
        "out": CHANNELS + HOPS,
    },
    "pairs, two blocks": {
        "pairs": ("rrwp", "resistance"),
        "options": LayerOptions(mlp_layers=2, gate_centroid=True),
    },
    "pairs, mean pooling": {"pairs": LAYER_PAIRS, "reduce": "mean"},
    "pairs, no subgraph": {"pairs": LAYER_PAIRS, "encodings": ("centroid", "context")},
}
"""As `LAYERS`, but with more encodings of pairs than the distance."""


def make_layer(convs=1, hop_channels=HOPS, out=OUT, dropout=0.0, conv=gine, **options):
    """Build a layer in float64; `conv` builds a conv of a given width."""
    options = {"options": LayerOptions(mlp_layers=1), "max_hops": 3} | options
    width = CHANNELS + (hop_channels if options.get("hop") != "add" else 0)
    stack = Stack([conv(width) for _ in range(convs)], width, dropout)
    layer = GNNAK(stack, CHANNELS, out, hop_channels=hop_channels, **options).double()
    randomize(layer)
    return layer


def hops_of(options):
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


def extractor(num_hops=2, pairs=LAYER_PAIRS):
    return WithEncodings(EgoNets(num_hops), structural_encodings(pairs))


def inputs(edge_index, num_nodes, hop_channels=HOPS, num_hops=2):
    """Return random node states, the egonets, and random edge states, in float64.

    The egonets have all encodings of pairs.
    """
    edge_attr = torch.randn(edge_index.size(1), CHANNELS + hop_channels).double()
    x = torch.randn(num_nodes, CHANNELS).double()
    return x, extractor(num_hops)(edge_index, num_nodes), edge_attr


def random_graph(num_nodes=12, num_edges=40):
    """Return a random multigraph with self loops; the last node has no edges."""
    return torch.randint(num_nodes - 1, (2, num_edges)), num_nodes


def state(module: nn.Module):
    """Return the gradients of all parameters, and all buffers, by name."""
    gradients = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in module.named_parameters()
    }
    return gradients | dict(module.named_buffers())


def is_fusable_on(layer, subgraphs, edge_attr) -> bool:
    """Return whether the layer can be fused on these inputs, on any device."""
    x = torch.zeros(subgraphs.num_nodes or 0, CHANNELS, dtype=torch.double)
    return can_fuse(layer, x, subgraphs, edge_attr)


def assert_padding_is_ignored(
    name: str, recompute=False, before=lambda: None, **options
) -> None:
    """Compare a fused network on padded batches with a plain one without padding."""
    used: list[str] = []
    near = extractor(NEAR.num_hops, options.get("pairs", ()))
    items, unpadded = padded_and_plain(name.endswith("-s"), near)
    network, reference = (small_network(name, **options).train() for _ in range(2))
    randomize(network)
    reference.load_state_dict(network.state_dict())
    network.save_memory(recompute=recompute)
    with use_backend(fused_everywhere(used)):
        assert_same_on_padded((network, reference), items, unpadded, before)
    times = 2 if recompute else 1
    assert num_fused_layers(used) == times * len(network.layers) * len(items)
