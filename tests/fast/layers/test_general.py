"""Layers with any base GNN: fused messages, gates and pools against plain PyTorch."""

import copy

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

from gnnak import GNNAK, EgoNets, SubgraphDrop, uplift
from gnnak.fast.layers.convs import HOOKS
from gnnak.typing import LAYER_PAIRS
from tests.fast.backends import (
    assert_fused_equals_plain,
    assert_second_derivatives_equal,
)
from tests.fast.layers.fused_layers import extractor

CONVS = {
    "GINE": lambda: pyg.GINEConv(nn.Linear(6, 6)),
    "GINE with a learned eps": lambda: pyg.GINEConv(nn.Linear(6, 6), train_eps=True),
    "GINE with wide edges": lambda: pyg.GINEConv(nn.Linear(6, 6), edge_dim=3),
    "GIN": lambda: pyg.GINConv(nn.Linear(6, 6), train_eps=True),
    "GCN": lambda: pyg.GCNConv(6, 6),
    "SAGE": lambda: pyg.SAGEConv(6, 6),
    "SAGE without root": lambda: pyg.SAGEConv(6, 6, root_weight=False),
}
OPTIONS = {
    "defaults": {},
    "mean": {"reduce": "mean"},
    "sum of encodings": {"fuse": "sum"},
    "gated centroid": {"gate_centroid": True},
    "no hops": {"hop_channels": 0},
    "one encoding": {"encodings": ("context",)},
    "pairs": {"pairs": LAYER_PAIRS, "gate_centroid": True},
    "pairs, one encoding": {"pairs": ("rrwp",), "encodings": ("context",)},
}


def random_graph(num_nodes):
    return torch.randint(num_nodes, (2, 3 * num_nodes))


def uplifted(name, **options):
    """Return an uplifted conv and its inputs; GINE also reads states of edges."""
    edge_index = random_graph(12)
    given = [torch.randn(12, 6).double(), edge_index]
    if name.startswith("GINE"):
        width = 3 if name == "GINE with wide edges" else 6
        given.append(torch.randn(edge_index.size(1), width).double())
    return uplift(CONVS[name]().double(), num_hops=2, **options), *given


@pytest.mark.parametrize("name", CONVS)
def test_uplifted_convs_equal_those_in_plain_pytorch(fused_operations, name):
    assert_fused_equals_plain(*uplifted(name))
    assert fused_operations.count("embed") == 1
    assert fused_operations.count("encode") == 1


@pytest.mark.parametrize("pairs", [("distance", "rrwp"), ("distance-counts",)])
@pytest.mark.parametrize("name", ["GINE", "GIN", "GCN", "SAGE"])
def test_convs_with_pairs_equal_plain_pytorch(fused_operations, name, pairs):
    given = uplifted(name, pairs=pairs)
    assert_fused_equals_plain(*given)
    assert fused_operations.count("embed") == 1
    assert fused_operations.count("encode") == 1


@pytest.mark.parametrize("hop", ["concat", "add"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options_of_a_layer_equal_plain_pytorch(fused_operations, options, hop):
    edge_index = random_graph(12)
    concat = hop == "concat" and options.get("hop_channels") != 0
    conv = pyg.GINEConv(nn.Linear(6 + 16 * concat, 6), edge_dim=3)
    layer = GNNAK(conv, 6, 6, hop=hop, mlp_layers=0, **options).double()
    e = torch.randn(edge_index.size(1), 3).double()
    given = torch.randn(12, 6).double(), extractor()(edge_index, 12), e
    assert_fused_equals_plain(layer, *given)
    assert {"embed", "encode"} <= set(fused_operations)


def test_sampled_subgraphs_equal_those_in_plain_pytorch(fused_operations):
    edge_index = random_graph(20)
    sampled = SubgraphDrop("random", 2)(EgoNets(2)(edge_index, 20), edge_index)
    layer = GNNAK(pyg.GCNConv(6, 6), 6, 6, hop="add", mlp_layers=0).double()
    assert_fused_equals_plain(layer, torch.randn(20, 6).double(), sampled)
    assert "embed" in fused_operations


@pytest.mark.parametrize("name", CONVS)
def test_gradients_can_be_differentiated_again(fused_operations, name):
    assert_second_derivatives_equal(*uplifted(name))


@pytest.mark.parametrize("pairs", [("distance", "rrwp"), ("resistance",)])
@pytest.mark.parametrize("name", ["GINE", "GCN"])
def test_gradients_with_pairs_can_be_differentiated_again(
    fused_operations, name, pairs
):
    assert_second_derivatives_equal(*uplifted(name, pairs=pairs))


def with_hooks(modules):
    for module in modules.modules():
        module.register_forward_hook(lambda module, given, out: 2 * out)


def with_other_linear(part, name, bias):
    old = getattr(part, name)
    size = old.in_features, old.out_features
    setattr(part, name, nn.Linear(*size, bias=bias).double())


CHANGES = {
    "hooks on gates": lambda layer: with_hooks(layer.gates),
    "hooks on encodings": lambda layer: with_hooks(layer.pair_linears),
    "a gate without a bias": lambda layer: with_other_linear(
        layer.gates["context"], "linear", bias=False
    ),
    "an encoding with a bias": lambda layer: with_other_linear(
        layer.pair_linears.linears, "rrwp", bias=True
    ),
    "a replaced method": lambda layer: setattr(
        layer.gates["context"], "forward", torch.ones_like
    ),
}
"""By name, functions that change a layer so that its encodings are not fused."""


@pytest.mark.parametrize("name", CHANGES)
def test_changed_gates_and_encodings_of_pairs_are_not_fused(fused_operations, name):
    net, *given = uplifted("GIN", pairs=LAYER_PAIRS, hop_channels=6)
    CHANGES[name](net.layer)
    assert_fused_equals_plain(net, *given)
    assert not {"embed", "encode"} & set(fused_operations)


class Doubled(pyg.GINConv):
    def message(self, x_j):
        return 2 * x_j


NOT_FUSED = {
    "a subclass": lambda: Doubled(nn.Linear(6, 6)),
    "another aggregation": lambda: pyg.GINConv(nn.Linear(6, 6), aggr="max"),
    "another flow": lambda: pyg.GINConv(nn.Linear(6, 6), flow="target_to_source"),
    "a projection": lambda: pyg.SAGEConv(6, 6, project=True),
    "no self loops": lambda: pyg.GCNConv(6, 6, add_self_loops=False),
}


@pytest.mark.parametrize("name", NOT_FUSED)
def test_other_convs_run_as_they_are(fused_operations, name):
    net = uplift(NOT_FUSED[name]().double(), num_hops=1)
    assert_fused_equals_plain(net, torch.randn(12, 6).double(), random_graph(12))
    assert "embed" not in fused_operations


def test_a_conv_with_a_message_hook_runs_as_it_is(fused_operations):
    net, *given = uplifted("GIN")
    seen = []
    net.layer.gnn.register_message_forward_hook(lambda *_: seen.append(1))
    net(*given)
    assert seen
    assert "embed" not in fused_operations


def test_the_names_of_all_hooks_of_a_conv_are_known():
    found = {
        name
        for name in vars(pyg.GINConv(nn.Linear(6, 6)))
        if name.endswith(("forward_hooks", "forward_pre_hooks"))
    }
    assert found == {*HOOKS, "_forward_hooks", "_forward_pre_hooks"}


@pytest.mark.parametrize("pairs", [("distance",), ("distance", "rrwp")], ids="+".join)
@pytest.mark.parametrize("gate_centroid", [False, True])
@pytest.mark.parametrize("name", ["GINE", "GIN", "GCN", "SAGE"])
def test_bf16_autocast_is_close_to_full_precision(
    fused_operations, name, gate_centroid, pairs
):
    torch.manual_seed(0)
    given = [x.float() if x.is_floating_point() else x for x in uplifted(name)[1:]]
    net = uplift(CONVS[name](), num_hops=2, gate_centroid=gate_centroid, pairs=pairs)
    found, wanted = copy.deepcopy(net), net(*given)
    wanted.square().mean().backward()
    with torch.autocast("cpu", torch.bfloat16):
        out = found(*given)
    assert out.dtype == torch.bfloat16
    out.float().square().mean().backward()
    assert fused_operations.count("embed") == 2
    torch.testing.assert_close(out.float(), wanted, rtol=0.1, atol=0.1)
    for one, other in zip(found.parameters(), net.parameters(), strict=True):
        assert one.dtype == torch.float
        torch.testing.assert_close(one.grad, other.grad, rtol=0.2, atol=0.2)
