"""Tables of gates and of added embeddings, in one kernel, against plain PyTorch."""

import copy
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric import nn as pyg

from gnnak import GNNAK, EgoNets, uplift
from gnnak.fast.layers import lifted_gine
from gnnak.optional import interprets_triton
from tests.fast.backends import path
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


def frozen(net):
    net.convs[1].requires_grad_(False)


def hooked(net):
    gate = net.convs[1].layer.gates["context"]
    gate.register_forward_hook(lambda module, args, output: 2 * output)


def with_frozen_gates(net):
    net.convs[1].layer.gates.requires_grad_(False)


def with_frozen_table(net):
    net.convs[1].layer.hop_table.requires_grad_(False)
    net.convs[1].layer.hop_linear.requires_grad_(False)


def with_transposed_table(net):
    table = net.convs[1].layer.hop_table
    table.weight = nn.Parameter(table.weight.data.t().contiguous().t())


def shared(net):
    net.convs[2] = net.convs[1]


GINES = Stack(6, 6, 6, edges=True)
MODELS = {
    "equal widths": (Stack(6, 6, 6, 6), {}, None),
    "two kinds of widths": (Stack(6, 4, 4, 4, 6), {}, None),
    "a gated centroid": (Stack(6, 6, 6), {"gate_centroid": True}, None),
    "one encoding": (Stack(6, 6, 6), {"encodings": ("centroid",)}, None),
    "wide embeddings": (Stack(6, 6, 6), {"hop_channels": 65}, None),
    "no distances": (Stack(6, 6, 6), {"hop_channels": 0}, None),
    "a frozen layer": (Stack(6, 6, 6, 6), {}, frozen),
    "a gate with a hook": (Stack(6, 6, 6, 6), {}, hooked),
    "one layer twice": (Stack(6, 6, 6, 6), {}, shared),
    "transposed embeddings": (Stack(6, 6, 6), {}, with_transposed_table),
    "recomputed layers": (Stack(6, 6, 6, checkpointed=True), {}, None),
    "GINE": (Stack(6, 4, 4, 6, edges=True), {}, None),
    "GINE, a gated centroid": (Stack(6, 6, edges=True), {"gate_centroid": True}, None),
    "GINE, one encoding": (GINES, {"encodings": ("centroid",)}, None),
    "GINE, a frozen layer": (GINES, {}, frozen),
    "GINE, frozen gates": (GINES, {}, with_frozen_gates),
    "GINE, frozen embeddings": (GINES, {}, with_frozen_table),
    "GINE, a gate with a hook": (GINES, {}, hooked),
    "GINE, one layer twice": (Stack(6, 6, 6, 6, edges=True), {}, shared),
    "GINE, transposed embeddings": (GINES, {}, with_transposed_table),
    "GINE, recomputed layers": (
        Stack(6, 6, 6, checkpointed=True, edges=True),
        {},
        None,
    ),
}


def gradients(net, x, edge_index, fused):
    """Return the output, and the gradients of the input and of all weights."""
    net, x = copy.deepcopy(net), x.clone().requires_grad_()
    with path(fused):
        out = net(x, edge_index)
        weights = torch.arange(out.numel(), device=out.device).view_as(out).cos()
        (out * weights).sum().backward()
    return [out.detach(), x.grad, *(weight.grad for weight in net.parameters())]


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
    model, options, change = MODELS[name]
    net = uplift(copy.deepcopy(model).double(), num_hops=2, **options)
    if change is not None:
        change(net)
    x, edge_index = torch.randn(5, 6).double(), torch.randint(5, (2, 9))
    found, wanted = (gradients(net, x, edge_index, fused) for fused in (True, False))
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    assert "embed" in fused_operations


@needs_gpu
@pytest.mark.parametrize("name", MODELS)
def test_tables_on_a_gpu_equal_those_in_plain_pytorch(name):
    model, options, change = MODELS[name]
    net = uplift(copy.deepcopy(model).cuda(), num_hops=2, **options)
    if change is not None:
        change(net)
    x = torch.randn(9, 6, device="cuda")
    edge_index = torch.randint(9, (2, 30), device="cuda")
    found = gradients(net, x, edge_index, True)
    wanted = gradients(net.double(), x.double(), edge_index, False)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3, check_dtype=False)


@pytest.mark.parametrize(
    "edges", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["GIN", "GINE"]
)
def test_tables_can_be_differentiated_twice(fused_operations, edges):
    net = uplift(Stack(6, 6, 6, edges=edges).double(), num_hops=1)
    edge_index, found = torch.randint(9, (2, 30)), []
    inputs = torch.randn(9, 6).double()
    for fused in (True, False):
        one, x = copy.deepcopy(net), inputs.clone().requires_grad_()
        with path(fused):
            out = one(x, edge_index).square().sum()
            (grad,) = torch.autograd.grad(out, x, create_graph=True)
            grad.square().sum().backward()
        found.append([weight.grad for weight in one.parameters()])
    for mine, wanted in zip(*found, strict=True):
        if wanted is None:
            assert mine is None or mine.abs().max() < 1e-12
        else:
            torch.testing.assert_close(mine, wanted, rtol=1e-9, atol=1e-9)
    assert "embed" in fused_operations


@pytest.fixture
def computed(monkeypatch):
    """List the layers whose tables are computed, and whether all tables are."""
    layers = []
    compute = lifted_gine._compute

    def counted(layer, hop_linear):
        layers.append((layer, hop_linear is not None))
        return compute(layer, hop_linear)

    monkeypatch.setattr(lifted_gine, "_compute", counted)
    return layers


def test_each_layer_of_an_uplifted_model_computes_its_tables_once(
    computed, fused_operations
):
    net = uplift(Stack(6, 6, 6, 6).double(), num_hops=1)
    net(torch.randn(5, 6).double(), torch.randint(5, (2, 9)))
    assert computed == [(conv.layer, True) for conv in net.convs]


def make_layer(conv=None):
    conv = conv or pyg.GCNConv(6, 6)
    return GNNAK(conv, 6, 6, hop="add", mlp_layers=0).double()


def test_a_layer_without_a_fused_conv_computes_only_its_gates(
    computed, fused_operations
):
    layer = make_layer(conv=pyg.GATConv(6, 6))
    x, edge_index = torch.randn(5, 6).double(), torch.randint(5, (2, 9))
    layer(x, EgoNets(1)(edge_index, 5))
    assert "embed" not in fused_operations
    assert computed == [(layer, False)]
    assert lifted_gine.gate_tables(layer).keys() == {"subgraph", "context"}


@pytest.mark.parametrize("edges", [False, True], ids=["GIN", "GINE"])
def test_weights_of_a_layer_that_is_not_used_get_no_gradient(fused_operations, edges):
    net = uplift(Stack(6, 6, 6, edges=edges).double(), num_hops=1)
    unused, net.convs = net.convs[1], net.convs[:1]
    net.unused = unused
    net(torch.randn(5, 6).double(), torch.randint(5, (2, 9))).sum().backward()
    assert all(weight.grad is None for weight in unused.parameters())
    assert net.convs[0].layer.hop_table.weight.grad is not None


@pytest.mark.parametrize("edges", [False, True], ids=["GIN", "GINE"])
def test_the_output_of_a_frozen_layer_requires_no_gradient(fused_operations, edges):
    net = uplift(Stack(6, 6, 6, edges=edges).double(), num_hops=1)
    net.convs[0].requires_grad_(False)
    seen = []
    net.convs[0].register_forward_hook(lambda _, args, out: seen.append(out))
    out = net(torch.randn(5, 6).double(), torch.randint(5, (2, 9)))
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
    x, edge_index = torch.randn(5, 6).double(), torch.randint(5, (2, 9))
    found = gradients(net, x, edge_index, True)
    torch.testing.assert_close(found, gradients(net, x, edge_index, False))


class Doubled(nn.Linear):
    """A Linear that returns twice as much."""

    def forward(self, input):
        return 2 * super().forward(input)


def with_doubled_linear(layer):
    layer.hop_linear = Doubled(6, 6, bias=False).double()
    layer.hop_linear.weight = nn.Parameter(
        torch.randn(6, layer.hop_table.weight.size(1)).double()
    )


def with_bias(layer):
    layer.hop_linear = nn.Linear(layer.hop_table.weight.size(1), 6).double()


def with_sequential(layer):
    layer.hop_linear = nn.Sequential(layer.hop_linear, nn.Tanh())


def with_sequential_gate(layer):
    gate = layer.gates["context"]
    gate.linear = nn.Sequential(gate.linear, nn.Tanh())


def with_strided_bias(layer):
    bias = nn.Parameter(torch.randn(12).double()[::2])
    layer.gates["context"].linear.bias = bias


def with_another_forward(layer):
    linear = layer.gates["context"].linear
    linear.forward = lambda d: torch.nn.functional.linear(d, 2 * linear.weight)


def with_unbiased_gate(layer):
    layer.gates["context"].linear.bias = None


@pytest.mark.parametrize(
    "change",
    [
        with_doubled_linear,
        with_bias,
        with_sequential,
        with_sequential_gate,
        with_strided_bias,
        with_another_forward,
        with_unbiased_gate,
    ],
)
def test_modules_that_a_user_has_replaced_are_called(change, fused_operations):
    layer = make_layer()
    change(layer)
    x, edge_index = torch.randn(5, 6).double(), torch.randint(5, (2, 9))
    subgraphs = EgoNets(1)(edge_index, 5)
    with path(True):
        found = layer(x, subgraphs)
    with path(False):
        torch.testing.assert_close(found, layer(x, subgraphs))
    assert "embed" in fused_operations
