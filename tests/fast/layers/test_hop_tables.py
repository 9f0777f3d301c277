"""The tables of all layers of a model, computed together, against plain PyTorch."""

import copy
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric import nn as pyg

from gnnak import GNNAK, EgoNets, uplift
from gnnak.fast.layers import hop_tables
from gnnak.nn.model_call import current_call
from tests.fast.backends import path


class Stack(nn.Module):
    """Some GIN convs, one after the other.

    Args:
        widths: Width of the input of each conv, and of the output of the last.
        checkpointed: Whether the convs are recomputed in the backward pass.
    """

    def __init__(self, *widths: int, checkpointed: bool = False) -> None:
        super().__init__()
        pairs = pairwise(widths)
        self.convs = nn.ModuleList(pyg.GINConv(nn.Linear(*pair)) for pair in pairs)
        self.checkpointed = checkpointed

    def forward(self, x, edge_index):
        for conv in self.convs:
            if self.checkpointed:
                x = checkpoint(conv, x, edge_index, use_reentrant=False)
            else:
                x = conv(x, edge_index)
            x = x.tanh()
        return x


def frozen(net):
    net.convs[1].requires_grad_(False)


def hooked(net):
    gate = net.convs[1].layer.gates["context"]
    gate.register_forward_hook(lambda module, args, output: 2 * output)


def shared(net):
    net.convs[2] = net.convs[1]


MODELS = {
    "equal widths": (Stack(6, 6, 6, 6), {}, None),
    "two kinds of widths": (Stack(6, 4, 4, 4, 6), {}, None),
    "a gated centroid": (Stack(6, 6, 6), {"gate_centroid": True}, None),
    "one encoding": (Stack(6, 6, 6), {"encodings": ("centroid",)}, None),
    "no distances": (Stack(6, 6, 6), {"hop_channels": 0}, None),
    "a frozen layer": (Stack(6, 6, 6, 6), {}, frozen),
    "a gate with a hook": (Stack(6, 6, 6, 6), {}, hooked),
    "one layer twice": (Stack(6, 6, 6, 6), {}, shared),
    "recomputed layers": (Stack(6, 6, 6, checkpointed=True), {}, None),
}


def gradients(net, x, edge_index, fused):
    """Return the output, and the gradients of the input and of all weights."""
    net, x = copy.deepcopy(net), x.clone().requires_grad_()
    with path(fused):
        out = net(x, edge_index)
        (out * torch.arange(out.numel()).view_as(out).cos()).sum().backward()
    return [out.detach(), x.grad, *(weight.grad for weight in net.parameters())]


@pytest.mark.parametrize("name", MODELS)
def test_tables_of_all_layers_equal_those_in_plain_pytorch(fused_operations, name):
    model, options, change = MODELS[name]
    net = uplift(copy.deepcopy(model).double(), num_hops=2, **options)
    if change is not None:
        change(net)
    x, edge_index = torch.randn(9, 6).double(), torch.randint(9, (2, 30))
    found = gradients(net, x, edge_index, True)
    for one, other in zip(found, gradients(net, x, edge_index, False), strict=True):
        if one is None or other is None:
            assert one is other
        else:
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    assert "embed" in fused_operations


def test_tables_of_all_layers_can_be_differentiated_twice(fused_operations):
    net = uplift(Stack(6, 6, 6).double(), num_hops=1)
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
    """List for how many layers tables are computed, each time that they are."""
    counts = []
    compute = hop_tables._compute

    def counted(layers):
        counts.append(len(layers))
        return compute(layers)

    monkeypatch.setattr(hop_tables, "_compute", counted)
    return counts


def test_tables_are_computed_once_in_each_call_of_a_model(computed, fused_operations):
    net = uplift(Stack(6, 6, 6, 6).double(), num_hops=1)
    x, edge_index = torch.randn(5, 6).double(), torch.randint(5, (2, 9))
    net(x, edge_index)
    net(x, edge_index)
    assert computed == [3, 3]
    net.convs[0](x, edge_index)
    assert computed == [3, 3, 1]


def test_a_layer_by_itself_computes_its_tables_once(computed, fused_operations):
    layer = GNNAK(pyg.GCNConv(6, 6), 6, 6, hop="add", mlp_layers=0).double()
    x, edge_index = torch.randn(5, 6).double(), torch.randint(5, (2, 9))
    layer(x, EgoNets(1)(edge_index, 5))
    assert computed == [1]


def test_a_call_of_a_model_ends_even_with_an_error():
    net = uplift(Stack(6, 6), num_hops=1)
    seen = []
    net.convs[0].register_forward_pre_hook(lambda *_: seen.append(current_call()))
    net(torch.randn(5, 6), torch.randint(5, (2, 9)))
    assert seen[0].model is net
    assert current_call() is None
    with pytest.raises(ValueError, match="x has shape"):
        net(torch.randn(5, 7), torch.randint(5, (2, 9)))
    assert current_call() is None
