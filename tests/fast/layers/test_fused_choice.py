"""Which layers and inputs are fused, and which run in plain PyTorch."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.nn import GIN, GINEConv, MaxAggregation

from gnnak import GNNAK, PAPER, EgoNets, LayerOptions, uplift
from gnnak.fast.layers.norm import norm_rows
from gnnak.fast.layers.parts import can_fuse_norm
from gnnak.nn.base.convs import gat, gatedgcn, gine, sage
from gnnak.nn.mlp import mlp
from gnnak.nn.norm import BatchNorm, RealRows, real_rows
from tests.fast.backends import assert_fused_equals_plain, num_fused_layers, path
from tests.fast.kernels.kernel_inputs import assert_same
from tests.fast.layers.fused_layers import (
    CHANNELS,
    HOPS,
    inputs,
    make_layer,
    random_graph,
    randomize,
)
from tests.models.zoo import molecule_batch, small_network

WIDTH = CHANNELS + HOPS


@pytest.fixture
def given():
    return inputs(*random_graph())


def layer_norm_gine(width):
    block = nn.Sequential(nn.Linear(width, width, bias=False), nn.LayerNorm(width))
    return GINEConv(nn.Sequential(block, nn.Linear(width, width)), train_eps=True)


def linear_for_edges(width):
    conv = gine(width)
    conv.lin = nn.Linear(width, width)
    return conv


class ProductConv(GINEConv):
    """A subclass of a conv that can be fused, with other messages."""

    def message(self, x_j, edge_attr):
        return x_j * edge_attr


UNFUSED_CONVS = {
    "gat": gat,
    "gatedgcn": gatedgcn,
    "Linear for edges": linear_for_edges,
    "other update": lambda w: GINEConv(nn.Sequential(nn.Linear(w, w), nn.ReLU())),
    "longer update": lambda w: GINEConv(mlp([w, w, w, w]), train_eps=True),
    "other norm": layer_norm_gine,
    "mean aggregation": lambda w: GINEConv(mlp([w, w, w]), train_eps=True, aggr="mean"),
    "subclass": lambda w: ProductConv(mlp([w, w, w]), train_eps=True),
    "no edge states": sage,
}
"""By name, functions that build a conv of a given width."""


def changed(change):
    layer = make_layer()
    change(layer, layer.gnn.convs[0])
    return layer


def outside_of_a_stack():
    options = LayerOptions(mlp_layers=1)
    return GNNAK(gine(WIDTH), CHANNELS, 5, hop_channels=HOPS, options=options).double()


def multiply(x_j, edge_attr):
    return x_j * edge_attr


CHANGES = {
    "another message": lambda layer, conv: setattr(conv, "message", multiply),
    "another pool": lambda layer, conv: setattr(conv, "aggr_module", MaxAggregation()),
    "a hook on messages": lambda layer, conv: conv.register_message_forward_hook(
        lambda *_: None
    ),
    "a hook inside": lambda layer, conv: layer.transforms["context"][
        0
    ].register_forward_hook(lambda *_: None),
}
UNFUSED = {
    **{n: lambda make=make: make_layer(conv=make) for n, make in UNFUSED_CONVS.items()},
    **{n: lambda change=change: changed(change) for n, change in CHANGES.items()},
    "outside of a stack": outside_of_a_stack,
}
"""By name, functions that build a layer."""


@pytest.mark.parametrize("name", UNFUSED)
def test_layers_with_other_modules_are_not_fused(fused_operations, given, name):
    UNFUSED[name]()(*(given[:2] if name == "no edge states" else given))
    assert not num_fused_layers(fused_operations)


@pytest.mark.parametrize("kind", ["two dtypes", "no number of edges", "plain backend"])
def test_a_layer_is_not_fused_with(fused_operations, given, kind):
    x, subgraphs, edge_attr = given
    if kind == "two dtypes":
        edge_attr = edge_attr.float()
    if kind == "no number of edges":
        subgraphs = replace(subgraphs, num_edges=None)
    with path(fused=kind != "plain backend"):
        make_layer()(x, subgraphs, edge_attr)
    assert not num_fused_layers(fused_operations)


@pytest.mark.parametrize(
    ("options", "hop_channels"),
    [
        ({"hop": "add"}, 0),
        ({"options": PAPER}, HOPS),
        ({"encodings": ("context",)}, HOPS),
    ],
)
def test_the_stacks_of_layers_with_other_options_are_not_fused(
    monkeypatch, fused_operations, options, hop_channels
):
    monkeypatch.setattr("gnnak.fast.layers.layer.fused_encodings", None)
    given = inputs(*random_graph(), hop_channels=hop_channels)
    make_layer(**options)(*given)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "options",
    [{"dropout": 0.5}, {"options": LayerOptions(mlp_layers=1, dropout=0.5)}],
    ids=["base GNN", "layer"],
)
def test_dropout_is_fused(fused_operations, given, options, training):
    make_layer(**options).train(training)(*given)
    assert num_fused_layers(fused_operations)


def test_layer_with_autocast_is_fused_in_bf16_alone(fused_operations, given):
    layer = make_layer().float()
    x, subgraphs, edge_attr = given
    for dtype, fused in ((torch.half, 0), (torch.bfloat16, 1)):
        with torch.autocast("cpu", dtype=dtype):
            layer(x.float(), subgraphs, edge_attr.float())
        assert num_fused_layers(fused_operations) == fused


@pytest.mark.parametrize("name", ["gin-ak+", "pna*-ak+"])
def test_networks_with_converted_norms_are_fused(fused_operations, name):
    network = nn.SyncBatchNorm.convert_sync_batchnorm(small_network(name))
    assert_fused_equals_plain(network, molecule_batch(), close=1e-9)
    assert num_fused_layers(fused_operations) == len(network.layers)


@pytest.mark.heavy
def test_compiled_layer_is_not_fused(fused_operations, given):
    layer = make_layer()
    with path(fused=False):
        wanted = copy.deepcopy(layer)(*given)
    assert_same(torch.compile(layer, backend="eager")(*given), wanted)
    assert not num_fused_layers(fused_operations)


@pytest.mark.parametrize("width", [1, WIDTH - 1, WIDTH + 1])
def test_edge_states_of_wrong_width_raise(fused_operations, given, width):
    x, subgraphs, edge_attr = given
    wrong = torch.ones(edge_attr.size(0), width).double()
    for fused in (True, False):
        with path(fused), pytest.raises(ValueError, match="dimensionalities do not"):
            make_layer()(x, subgraphs, wrong)


@pytest.mark.parametrize("option", ["affine", "track_running_stats"])
def test_norm_without_weights_or_statistics_matches_plain(fused_operations, option):
    assert_fused_equals_plain(BatchNorm(3, **{option: False}), torch.randn(9, 3))


def test_gradient_of_norm_on_one_real_row_matches_plain(fused_operations):
    norm = BatchNorm(3).double()
    randomize(norm)
    with real_rows(RealRows(nodes=torch.tensor(1))):
        net = FirstRow(norm)
        assert_fused_equals_plain(net, torch.randn(5, 3).double(), close=1e-9)


class FirstRow(nn.Sequential):
    def forward(self, x):
        return super().forward(x)[0]


def test_second_derivative_of_fused_layer_raises(fused_operations, given):
    x, subgraphs, edge_attr = given
    out = make_layer()(x.requires_grad_(), subgraphs, edge_attr)
    (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_uplifted_pyg_model_equals_the_plain_one(fused_operations):
    edge_index, nodes = random_graph()
    gin = GIN(CHANNELS, 8, num_layers=2, out_channels=3, norm="batch_norm")
    x = torch.randn(nodes, CHANNELS).double()
    model = uplift(gin, EgoNets(2)).double()
    assert_fused_equals_plain(model, x, edge_index, close=1e-9)
    assert num_fused_layers(fused_operations) == 2


@pytest.mark.parametrize("real", [0, 1, 2, 4])
def test_fused_norm_uses_the_statistics_of_real_rows(real):
    """With fewer than two real rows, the running statistics are used."""
    x, weights = torch.randn(2, 4, 3, dtype=torch.double)
    weights[real:] = 0
    results = []
    for fused in (False, True):
        norm = BatchNorm(3).double()
        norm.running_mean += torch.arange(3)
        rows = x.clone().requires_grad_()
        with real_rows(RealRows(nodes=torch.tensor(real))):
            out = norm_rows(norm, rows) if fused else norm(rows)
        (out * weights).sum().backward()
        gradients = [rows.grad, norm.weight.grad, norm.bias.grad]
        results.append([out[:real], *gradients, *norm.buffers()])
    assert_same(*results)


def test_norm_is_not_fused_on_strided_rows_or_with_other_options():
    norm, rows = BatchNorm(4), torch.rand(8, 4)
    assert can_fuse_norm(norm, rows)
    one_row = rows[:1]
    for other in (torch.rand(4, 8).t(), torch.rand(8, 8)[:, ::2], one_row):
        assert not can_fuse_norm(norm, other)
    for plain in (BatchNorm(4, affine=False), BatchNorm(4, momentum=None)):
        assert not can_fuse_norm(plain, rows)


def test_gradient_of_fused_norm_ignores_later_updates_of_running_statistics():
    gradients = []
    for trains in (False, True):
        torch.manual_seed(0)
        norm = BatchNorm(3).double().eval()
        out = norm_rows(norm, torch.randn(4, 3, dtype=torch.double))
        if trains:
            norm.train()
            norm(5 + torch.randn(4, 3, dtype=torch.double))
        (out * torch.arange(12).view(4, 3)).sum().backward()
        gradients.append(norm.weight.grad)
    assert_same(*gradients)
