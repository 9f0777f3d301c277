"""Tables of gates and of added embeddings, in one kernel, against plain PyTorch."""

import copy
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric import nn as pyg

from gnnak import GNNAK, EgoNets, uplift
from gnnak.fast.layers import general
from gnnak.optional import interprets_triton
from tests.fast.backends import (
    assert_fused_equals_plain,
    assert_second_derivatives_equal,
    outcome,
)
from tests.gpu import needs_gpu


class Stack(nn.Module):
    """Some GIN convs, or GINE convs with the sum of both ends as edge state."""

    def __init__(
        self, *widths: int, checkpointed: bool = False, edges: bool = False
    ) -> None:
        super().__init__()
        kind, pairs = pyg.GINEConv if edges else pyg.GINConv, pairwise(widths)
        self.convs = nn.ModuleList(kind(nn.Linear(*pair)) for pair in pairs)
        self.checkpointed, self.edges = checkpointed, edges

    def forward(self, x, edge_index):
        for conv in self.convs:
            given = (x, edge_index)
            if self.edges:
                given = (x, edge_index, x[edge_index].sum(dim=0))
            if self.checkpointed:
                x = checkpoint(conv, *given, use_reentrant=False)
            else:
                x = conv(*given)
            x = x.tanh()
        return x


def transpose_table(net):
    table = net.convs[1].layer.hop_table
    table.weight = nn.Parameter(table.weight.data.t().contiguous().t())


def freeze_table(net):
    net.convs[1].layer.hop_table.requires_grad_(False)
    net.convs[1].layer.hop_linear.requires_grad_(False)


def doubled(_module, _given, output):
    return 2 * output


CHANGES = {
    "a frozen layer": lambda net: net.convs[1].requires_grad_(False),
    "a gate with a hook": lambda net: (
        net.convs[1].layer.gates["context"].register_forward_hook(doubled)
    ),
    "one layer twice": lambda net: setattr(net.convs, "2", net.convs[1]),
    "transposed embeddings": transpose_table,
    "frozen gates": lambda net: net.convs[1].layer.gates.requires_grad_(False),
    "frozen embeddings": freeze_table,
}
THREE = Stack(6, 6, 6, 6)
GINES = Stack(6, 6, 6, edges=True)
MODELS = {
    "equal widths": (THREE, {}),
    "two kinds of widths": (Stack(6, 4, 4, 4, 6), {}),
    "a gated centroid": (Stack(6, 6, 6), {"gate_centroid": True}),
    "one encoding": (Stack(6, 6, 6), {"encodings": ("centroid",)}),
    "wide embeddings": (Stack(6, 6, 6), {"hop_channels": 65}),
    "no distances": (Stack(6, 6, 6), {"hop_channels": 0}),
    "a frozen layer": (THREE, {}),
    "a gate with a hook": (THREE, {}),
    "one layer twice": (THREE, {}),
    "transposed embeddings": (Stack(6, 6, 6), {}),
    "recomputed layers": (Stack(6, 6, 6, checkpointed=True), {}),
    "GINE": (Stack(6, 4, 4, 6, edges=True), {}),
    "GINE, a gated centroid": (Stack(6, 6, edges=True), {"gate_centroid": True}),
    "GINE, one encoding": (GINES, {"encodings": ("centroid",)}),
    "GINE, a frozen layer": (GINES, {}),
    "GINE, frozen gates": (GINES, {}),
    "GINE, frozen embeddings": (GINES, {}),
    "GINE, a gate with a hook": (GINES, {}),
    "GINE, one layer twice": (Stack(6, 6, 6, 6, edges=True), {}),
    "GINE, transposed embeddings": (GINES, {}),
    "GINE, recomputed layers": (Stack(6, 6, 6, checkpointed=True, edges=True), {}),
}


def model(name):
    """Uplift a model in float64 and change it."""
    stack, options = MODELS[name]
    net = uplift(copy.deepcopy(stack).double(), num_hops=2, **options)
    CHANGES.get(name.removeprefix("GINE, "), lambda net: None)(net)
    return net


def states_and_edges():
    return torch.randn(5, 6).double(), torch.randint(5, (2, 9))


INTERPRETED = {
    "two kinds of widths",
    "one encoding",
    "wide embeddings",
    "GINE",
    "GINE, a gated centroid",
    "GINE, frozen embeddings",
    "GINE, transposed embeddings",
}
"""Models that also run in Triton's interpreter, which is slow."""


@pytest.mark.parametrize("name", MODELS)
def test_tables_equal_those_in_plain_pytorch(fused_operations, name):
    if interprets_triton() and name not in INTERPRETED:
        pytest.skip("Triton's interpreter is slow; plain PyTorch runs all models")
    assert_fused_equals_plain(model(name), *states_and_edges())
    assert "embed" in fused_operations


@needs_gpu
@pytest.mark.parametrize("name", MODELS)
def test_tables_on_a_gpu_equal_those_in_plain_pytorch(name):
    net, x = model(name).cuda(), torch.randn(9, 6, device="cuda").double()
    edge_index = torch.randint(9, (2, 30), device="cuda")
    wanted = outcome(net, x, edge_index, fused=False)
    found = outcome(net.float(), x.float(), edge_index)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3, check_dtype=False)


@pytest.mark.parametrize(
    "edges", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["GIN", "GINE"]
)
def test_tables_can_be_differentiated_twice(fused_operations, edges):
    net = uplift(Stack(6, 6, 6, edges=edges).double(), num_hops=1)
    x, edge_index = torch.randn(9, 6).double(), torch.randint(9, (2, 30))
    assert_second_derivatives_equal(net, x, edge_index)
    assert "embed" in fused_operations


@pytest.fixture
def computed(monkeypatch):
    """List the layers whose tables are computed, and whether all tables are."""
    layers = []
    compute = general._compute

    def counted(layer, hop_linear):
        layers.append((layer, hop_linear is not None))
        return compute(layer, hop_linear)

    monkeypatch.setattr(general, "_compute", counted)
    return layers


def test_each_layer_of_a_model_computes_its_tables_once(computed, fused_operations):
    net = uplift(Stack(6, 6, 6, 6).double(), num_hops=1)
    net(*states_and_edges())
    assert computed == [(conv.layer, True) for conv in net.convs]


def make_layer(conv=None):
    conv = conv or pyg.GCNConv(6, 6)
    return GNNAK(conv, 6, 6, hop="add", mlp_layers=0).double()


def test_a_layer_without_a_fused_conv_computes_its_gates(computed, fused_operations):
    layer = make_layer(conv=pyg.GATConv(6, 6))
    x, edge_index = states_and_edges()
    layer(x, EgoNets(1)(edge_index, 5))
    assert "embed" not in fused_operations
    assert computed == [(layer, False)]
    assert general.gate_tables(layer).keys() == {"subgraph", "context"}


@pytest.mark.parametrize("edges", [False, True], ids=["GIN", "GINE"])
def test_weights_of_a_layer_that_is_not_used_get_no_gradient(fused_operations, edges):
    net = uplift(Stack(6, 6, 6, edges=edges).double(), num_hops=1)
    unused, net.convs = net.convs[1], net.convs[:1]
    net.unused = unused
    net(*states_and_edges()).sum().backward()
    assert all(weight.grad is None for weight in unused.parameters())
    assert net.convs[0].layer.hop_table.weight.grad is not None


@pytest.mark.parametrize("edges", [False, True], ids=["GIN", "GINE"])
def test_the_output_of_a_frozen_layer_requires_no_gradient(fused_operations, edges):
    net = uplift(Stack(6, 6, 6, edges=edges).double(), num_hops=1)
    net.convs[0].requires_grad_(False)
    seen = []
    net.convs[0].register_forward_hook(lambda _, args, out: seen.append(out))
    out = net(*states_and_edges())
    assert not seen[0].requires_grad
    assert out.requires_grad


class Repeating(Stack):
    """A stack that takes a gradient, and changes its weights, within one call."""

    def forward(self, x, edge_index):
        first = super().forward(x, edge_index)
        weights = list(self.parameters())
        grads = torch.autograd.grad(first.sum(), weights, allow_unused=True)
        with torch.no_grad():
            for weight, grad in zip(weights, grads, strict=True):
                weight += 0 if grad is None else 0.1 * grad
        return super().forward(x, edge_index)


def test_a_model_may_change_its_weights_within_a_call(fused_operations):
    net = uplift(Repeating(6, 6, 6).double(), num_hops=1)
    assert_fused_equals_plain(net, *states_and_edges(), close=1e-7)


class Doubled(nn.Linear):
    def forward(self, input):
        return 2 * super().forward(input)


def doubled_linear(layer):
    linear = Doubled(6, 6, bias=False).double()
    linear.weight = nn.Parameter(torch.randn(6, layer.hop_linear.in_features).double())
    return linear


def linear_with_another_forward(linear):
    linear.forward = lambda d: nn.functional.linear(d, 2 * linear.weight)
    return linear


REPLACED = {
    "a subclass": ("hop_linear", doubled_linear),
    "a bias": ("hop_linear", lambda layer: nn.Linear(layer.hop_linear.in_features, 6)),
    "a Sequential": ("hop_linear", lambda layer: and_tanh(layer.hop_linear)),
    "a Sequential gate": ("linear", lambda gate: and_tanh(gate.linear)),
    "another forward": ("linear", lambda g: linear_with_another_forward(g.linear)),
    "a strided bias": (
        "linear.bias",
        lambda _: nn.Parameter(torch.randn(12).double()[::2]),
    ),
    "no bias": ("linear.bias", lambda _: None),
}
"""By name, a part of the layer or of its gate, and what replaces it."""


def and_tanh(linear):
    return nn.Sequential(linear, nn.Tanh())


@pytest.mark.parametrize("name", REPLACED)
def test_modules_that_a_user_has_replaced_are_called(name, fused_operations):
    layer, (part, make) = make_layer(), REPLACED[name]
    owner = layer if part == "hop_linear" else layer.gates["context"]
    new = make(owner)
    if part == "linear.bias":
        owner.linear.bias = new
    else:
        setattr(owner, part, new)
    x, edge_index = states_and_edges()
    assert_fused_equals_plain(layer.double(), x, EgoNets(1)(edge_index, 5), close=1e-7)
    assert "embed" in fused_operations
