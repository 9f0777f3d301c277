"""Assert that fused layers and networks compute what plain PyTorch does."""

import torch
from torch import Tensor, nn

from gnnak.backend import PLAIN, use_backend
from gnnak.fast.layers.layer import can_fuse
from gnnak.nn import GNNAK, Stack
from gnnak.nn.options import PUBLISHED
from gnnak.subgraphs import EgoNets, RootedSubgraphs
from tests.fast.backends import fused_everywhere, num_fused_layers
from tests.loading.test_padding import NEAR, padded_and_plain
from tests.models.zoo import small_network

EXACT = {"rtol": 1e-9, "atol": 1e-9}
CHANNELS, HOP_CHANNELS = 4, 3
WIDTH = CHANNELS + HOP_CHANNELS


def make_layer(convs: list[nn.Module]) -> GNNAK:
    """Build a layer in float64 around convs of width `WIDTH`.

    Biases and running means are random: with a bias of 0, a constant column would put
    ReLUs exactly at 0, where the gradient is not defined.
    """
    options = {"hop_channels": HOP_CHANNELS, "max_hops": 2, "options": PUBLISHED}
    layer = GNNAK(Stack(convs, WIDTH), CHANNELS, 5, **options).double()
    for parameter in layer.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter)
    for name, buffer in layer.named_buffers():
        if name.endswith("running_mean"):
            nn.init.normal_(buffer)
    return layer


def subgraphs_of(edge_index: Tensor, num_nodes: int) -> RootedSubgraphs:
    """Return the egonets of two hops."""
    return EgoNets(2)(edge_index, num_nodes)


def is_fusable_on(
    layer: GNNAK, subgraphs: RootedSubgraphs, edge_attr: Tensor | None
) -> bool:
    """Return whether the layer can be fused on these inputs, on any device."""
    x = torch.zeros(subgraphs.num_nodes or 0, CHANNELS, dtype=torch.double)
    return can_fuse(layer, x, subgraphs, edge_attr)


def assert_fused_matches_plain(
    layer: GNNAK, subgraphs: RootedSubgraphs, edge_attr: Tensor | None, training: bool
) -> None:
    """Assert equal outputs, gradients and running statistics, fused and in PyTorch."""
    x = torch.randn(subgraphs.num_nodes, CHANNELS, dtype=torch.double)
    assert is_fusable_on(layer.train(training), subgraphs, edge_attr)
    state = {name: value.clone() for name, value in layer.state_dict().items()}
    results, weights = [], torch.randn(x.size(0), 5, dtype=torch.double)
    for fused in (False, True):
        layer.load_state_dict(state)
        layer.zero_grad()
        inputs = [x.clone().requires_grad_()]
        inputs += [] if edge_attr is None else [edge_attr.clone().requires_grad_()]
        used: list[str] = []
        with use_backend(fused_everywhere(used) if fused else PLAIN):
            out = layer(inputs[0], subgraphs, *inputs[1:])
        assert bool(num_fused_layers(used)) is fused
        (out * weights).sum().backward()
        found = {"out": out} | {f"input {i}": v.grad for i, v in enumerate(inputs)}
        found |= {name: value.grad for name, value in layer.named_parameters()}
        found |= {name: value.clone() for name, value in layer.named_buffers()}
        results.append(found)
    torch.testing.assert_close(*results, **EXACT)


def assert_padding_is_ignored(name: str) -> None:
    """Assert that a fused network on padded batches equals a plain one without padding.

    Compares outputs, gradients and buffers of the network `name`.
    """
    items, unpadded_items = padded_and_plain(name.endswith("-s"), NEAR)
    network, reference = small_network(name).train(), small_network(name).train()
    used: list[str] = []
    with use_backend(fused_everywhere(used)):
        assert_same_on_padded(network, reference, items, unpadded_items)
    assert num_fused_layers(used) == len(network.layers) * len(items)


def assert_same_on_padded(network, reference, items, unpadded, before=lambda: None):
    """Compare a network on padded items with a plain one on the items without padding.

    Compares outputs, gradients and buffers; `before` is called before each pass.
    """
    for padded, plain in zip(items, unpadded, strict=True):
        before()
        got = network(padded.batch, subgraphs=padded.subgraphs)
        got = got[: padded.batch.real.graphs]
        before()
        with use_backend(PLAIN):
            wanted = reference(plain.batch, subgraphs=plain.subgraphs)
        torch.testing.assert_close(got, wanted, **EXACT)
        weights = torch.randn_like(wanted)
        (got * weights).sum().backward()
        (wanted * weights).sum().backward()
    found, wanted = (
        [*(weight.grad for weight in net.parameters()), *net.buffers()]
        for net in (network, reference)
    )
    torch.testing.assert_close(found, wanted, **EXACT)
