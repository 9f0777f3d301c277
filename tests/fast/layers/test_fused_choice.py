"""Which layers and inputs are fused, and which run in plain PyTorch."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.nn import GIN, GINEConv, MaxAggregation

from gnnak import GNNAK, PAPER, EgoNets, LayerOptions, uplift
from gnnak.nn.base.convs import gat, gatedgcn, gine, sage
from gnnak.nn.mlp import mlp
from gnnak.nn.norm import BatchNorm, RealRows, real_rows
from tests.fast.backends import num_fused_layers, path
from tests.fast.kernels.kernel_inputs import assert_same
from tests.fast.layers.fused_layers import (
    CHANNELS,
    HOPS,
    inputs,
    make_layer,
    random_graph,
    randomize,
)

WIDTH = CHANNELS + HOPS


@pytest.fixture
def given():
    """Node states, rooted subgraphs and edge states."""
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


@pytest.mark.parametrize("name", UNFUSED_CONVS)
def test_other_convs_are_not_fused(fused_operations, given, name):
    inputs_read = given[:2] if name == "no edge states" else given
    make_layer(conv=UNFUSED_CONVS[name])(*inputs_read)
    assert not num_fused_layers(fused_operations)


def replace_message(layer):
    layer.gnn.convs[0].message = lambda x_j, edge_attr: x_j * edge_attr


def replace_pool(layer):
    layer.gnn.convs[0].aggr_module = MaxAggregation()


def hook_on_messages(layer):
    layer.gnn.convs[0].register_message_forward_hook(lambda *_: None)


def hook_inside(layer):
    layer.transforms["context"][0].register_forward_hook(lambda *_: None)


@pytest.mark.parametrize(
    "change", [replace_message, replace_pool, hook_on_messages, hook_inside]
)
def test_a_layer_with_hooks_or_a_changed_conv_is_not_fused(
    fused_operations, given, change
):
    layer = make_layer()
    change(layer)
    layer(*given)
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


def in_two_dtypes(x, subgraphs, edge_attr):
    make_layer()(x, subgraphs, edge_attr.float())


def without_a_number_of_edges(x, subgraphs, edge_attr):
    make_layer()(x, replace(subgraphs, num_edges=None), edge_attr)


def outside_of_a_stack(*given):
    options = LayerOptions(mlp_layers=1)
    GNNAK(gine(WIDTH), CHANNELS, 5, hop_channels=HOPS, options=options).double()(*given)


def in_the_plain_backend(*given):
    with path(fused=False):
        make_layer()(*given)


@pytest.mark.parametrize(
    "run",
    [
        in_two_dtypes,
        without_a_number_of_edges,
        outside_of_a_stack,
        in_the_plain_backend,
    ],
)
def test_a_layer_is_not_fused(fused_operations, given, run):
    run(*given)
    assert not num_fused_layers(fused_operations)


def test_layer_is_not_fused_with_several_processes(
    fused_operations, given, monkeypatch
):
    monkeypatch.setattr("gnnak.fast.layers.layer.several_processes", lambda: True)
    make_layer()(*given)
    assert not num_fused_layers(fused_operations)


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


def test_norm_without_weights_or_running_statistics_matches_plain(fused_operations):
    rows = torch.randn(9, 3)
    for options in ({"affine": False}, {"track_running_stats": False}):
        norm = BatchNorm(3, **options)
        with path(fused=False):
            wanted = copy.deepcopy(norm)(rows)
        torch.testing.assert_close(norm(rows), wanted)


def test_gradient_of_norm_on_one_real_row_matches_plain(
    fused_operations,
):
    rows, gradients = torch.randn(5, 3).double(), []
    norm = BatchNorm(3).double()
    randomize(norm)
    for fused in (True, False):
        h = rows.clone().requires_grad_()
        with path(fused), real_rows(RealRows(nodes=torch.tensor(1))):
            out = copy.deepcopy(norm)(h)
        (out[0] * torch.arange(3)).sum().backward()
        gradients.append(h.grad)
    assert_same(*gradients)


def test_second_derivative_of_fused_layer_raises(fused_operations, given):
    x, subgraphs, edge_attr = given
    out = make_layer()(x.requires_grad_(), subgraphs, edge_attr)
    (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_uplifted_pyg_model_equals_the_plain_one(fused_operations):
    edge_index, nodes = random_graph()
    x = torch.randn(nodes, CHANNELS).double()
    model = uplift(
        GIN(CHANNELS, 8, num_layers=2, out_channels=3, norm="batch_norm"), EgoNets(2)
    ).double()
    with path(fused=False):
        wanted = copy.deepcopy(model)(x, edge_index)
    assert_same(model(x, edge_index), wanted)
    assert num_fused_layers(fused_operations) == 2
