"""Continuous edge features: fused layers match plain ones, and hooks are called."""

import functools

import pytest
import torch

from gnnak.models.network import Kernel, OuterLayer
from gnnak.nn import GNNAK, PUBLISHED, Stack
from gnnak.nn.base.convs import gine
from gnnak.nn.features import ContinuousEncoder
from gnnak.subgraphs import EgoNets
from tests.fast.backends import assert_fused_equals_plain, num_fused_layers
from tests.fast.layers.fused_layers import random_graph, randomize
from tests.models.zoo import continuous_network


@pytest.mark.parametrize("kind", ["hook", "subclass"])
def test_subclasses_and_hooks_of_an_encoder_are_called(fused_operations, kind):
    class Subclass(ContinuousEncoder):
        def forward(self, values, num_rows):
            calls.append(num_rows)
            return super().forward(values, num_rows)

    calls, gnn = [], gine(5)
    encoder = Subclass(2, 5) if kind == "subclass" else ContinuousEncoder(2, 5)
    if kind == "hook":
        encoder.register_forward_hook(lambda module, given, out: calls.append(given[1]))
    kernel = Kernel(gnn, 5, encoder)
    edge_index, batch = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.zeros(3).long()
    kernel(torch.randn(3, 5), edge_index, torch.randn(3, 2), batch, None)
    assert calls == [3]


@pytest.mark.parametrize("name", ["gin-ak", "gin-ak+", "gin-ak+-s", "pna*-ak+"])
@pytest.mark.parametrize("training", [True, False])
def test_network_on_continuous_edges_matches_plain(fused_operations, name, training):
    options = {"base_layers": 2, "channels": 6, "subgraphs": EgoNets(2)}
    network = continuous_network(name, **options).train(training)
    randomize(network)
    edge_index, nodes = random_graph()
    x, edge_attr = torch.randn(nodes, 4), torch.randn(edge_index.size(1), 3)
    given = x.double(), edge_index, edge_attr.double(), torch.arange(nodes) // 4
    assert_fused_equals_plain(network, *given, close=1e-9, seed=1)
    assert num_fused_layers(fused_operations) == len(network.layers)


OPTIONS = {"hop_channels": 3, "max_hops": 2, "options": PUBLISHED}


class Doubling(GNNAK):
    def forward(self, x, subgraphs, edge_attr=None):
        return super().forward(x, subgraphs, edge_attr * 2)


@pytest.mark.parametrize("kind", ["subclass", "hook"])
def test_subclasses_and_hooks_of_a_layer_get_a_tensor_of_edges(fused_operations, kind):
    seen = []
    make = Doubling if kind == "subclass" else GNNAK
    layer = make(Stack([gine(7)], 7), 4, 4, **OPTIONS)
    if kind == "hook":
        layer.register_forward_pre_hook(lambda _, given: seen.append(given[2]))
    kernel = Kernel(layer, 4, ContinuousEncoder(1, 7)).double()
    edge_index, nodes = random_graph()
    subgraphs = EgoNets(2)(edge_index, nodes)
    x, edge_attr = torch.randn(nodes, 4).double(), torch.randn(40, 1).double()
    kernel(x, edge_index, edge_attr, torch.zeros(nodes).long(), subgraphs)
    assert all(states.shape == (40, 7) for states in seen)
    assert len(seen) == (kind == "hook")


@pytest.mark.parametrize("kind", ["forward", "backward"])
def test_hooks_of_every_module_are_called(fused_operations, kind):
    called = []
    layer = GNNAK(Stack([gine(7)], 7), 4, 4, **OPTIONS)
    outer = OuterLayer([Kernel(layer, 4, ContinuousEncoder(1, 7))], 4).double()
    for name in ("kernels.0.gnn", "kernels.0.edge_encoder", "after"):
        module = outer.get_submodule(name)
        hook = functools.partial(lambda name, *_: called.append(name), name)
        if kind == "forward":
            module.register_forward_hook(hook)
        else:
            module.register_full_backward_hook(hook)
    edge_index, nodes = random_graph()
    x = torch.randn(nodes, 4).double().requires_grad_()
    edge_attr = torch.randn(edge_index.size(1), 1).double().requires_grad_()
    batch, subgraphs = torch.zeros(nodes).long(), EgoNets(2)(edge_index, nodes)
    outer(x, edge_index, edge_attr, batch, subgraphs).sum().backward()
    assert sorted(called) == ["after", "kernels.0.edge_encoder", "kernels.0.gnn"]
