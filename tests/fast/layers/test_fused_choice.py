"""Where the fused path is taken, and where it must not be."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.nn import GIN, GINEConv

from gnnak import GNNAK, PAPER, EgoNets, LayerOptions, uplift
from gnnak.nn.base.convs import gat, gatedgcn, gine, sage
from gnnak.nn.mlp import mlp
from gnnak.nn.norm import BatchNorm
from gnnak.nn.padding import RealRows, real_rows
from tests.fast.backends import layers_in, path
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
    return inputs(*random_graph())


def layer_norm_gine(width):
    block = nn.Sequential(nn.Linear(width, width, bias=False), nn.LayerNorm(width))
    return GINEConv(nn.Sequential(block, nn.Linear(width, width)), train_eps=True)


def linear_for_edges(width):
    conv = gine(width)
    conv.lin = nn.Linear(width, width)
    return conv


OTHERS = {
    "gat": gat,
    "gatedgcn": gatedgcn,
    "a Linear for edges": linear_for_edges,
    "another update": lambda w: GINEConv(nn.Sequential(nn.Linear(w, w), nn.ReLU())),
    "a longer update": lambda w: GINEConv(mlp([w, w, w, w]), train_eps=True),
    "another norm": layer_norm_gine,
    "means": lambda w: GINEConv(mlp([w, w, w]), train_eps=True, aggr="mean"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_fused_path_is_not_for_other_convs(fuses, given, name):
    make_layer(conv=OTHERS[name])(*given)
    assert not layers_in(fuses)


def test_fused_path_is_not_for_convs_without_edge_states(fuses, given):
    make_layer(conv=sage)(*given[:2])
    assert not layers_in(fuses)


def test_fused_path_is_not_for_a_subclass(fuses, given):
    class Mine(GINEConv):
        def message(self, x_j, edge_attr):
            return x_j * edge_attr

    make_layer(conv=lambda w: Mine(mlp([w, w, w]), train_eps=True))(*given)
    assert not layers_in(fuses)


@pytest.mark.parametrize(
    ("options", "hop_channels"),
    [
        ({"hop": "add"}, 0),
        ({"options": PAPER}, HOPS),
        ({"encodings": ("context",)}, HOPS),
    ],
)
def test_fused_path_is_not_for_other_layers(fuses, options, hop_channels):
    given = inputs(*random_graph(), hop_channels=hop_channels)
    make_layer(**options)(*given)
    assert not layers_in(fuses)


@pytest.mark.parametrize("training", [True, False])
def test_fused_path_is_not_for_dropout_in_training(fuses, given, training):
    make_layer(dropout=0.5).train(training)(*given)
    assert bool(layers_in(fuses)) != training


def test_fused_path_is_for_dropout_before_fuse(fuses, given):
    make_layer(options=LayerOptions(mlp_layers=1, dropout=0.5))(*given)
    assert layers_in(fuses)


def test_fused_path_is_not_for_autocast(fuses, given):
    layer = make_layer().float()
    x, subgraphs, edge_attr = given
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer(x.float(), subgraphs, edge_attr.float())
    assert not layers_in(fuses)


def test_fused_path_is_not_for_mixed_types(fuses, given):
    x, subgraphs, edge_attr = given
    make_layer()(x, subgraphs, edge_attr.float())
    assert not layers_in(fuses)


def test_fused_path_is_not_for_several_processes(fuses, given, monkeypatch):
    monkeypatch.setattr("gnnak.fast.layers.layer.several_processes", lambda: True)
    make_layer()(*given)
    assert not layers_in(fuses)


def test_fused_path_is_not_for_compiled_layers(fuses, given):
    layer = make_layer()
    with path(fused=False):
        wanted = copy.deepcopy(layer)(*given)
    assert_same(torch.compile(layer, backend="eager")(*given), wanted)
    assert not layers_in(fuses)


def test_fused_path_is_not_for_records_that_do_not_know_their_graph(fuses, given):
    x, subgraphs, edge_attr = given
    make_layer()(x, replace(subgraphs, num_edges=None), edge_attr)
    assert not layers_in(fuses)


def test_fused_path_is_not_for_a_bare_conv(fuses, given):
    GNNAK(
        gine(WIDTH), CHANNELS, 5, hop_channels=HOPS, options=LayerOptions(mlp_layers=1)
    ).double()(*given)
    assert not layers_in(fuses)


def test_fused_path_can_be_refused(fuses, given):
    with path(fused=False):
        make_layer()(*given)
    assert not layers_in(fuses)


@pytest.mark.parametrize("width", [1, WIDTH - 1, WIDTH + 1])
def test_edge_states_of_another_width_are_an_error(fuses, given, width):
    x, subgraphs, edge_attr = given
    wrong = torch.ones(edge_attr.size(0), width).double()
    for fused in (True, False):
        with path(fused), pytest.raises(ValueError, match="dimension"):
            make_layer()(x, subgraphs, wrong)


def test_a_norm_without_weights_or_memory_is_normed_as_ever(fuses):
    rows = torch.randn(9, 3)
    for options in ({"affine": False}, {"track_running_stats": False}):
        norm = BatchNorm(3, **options)
        with path(fused=False):
            wanted = copy.deepcopy(norm)(rows)
        torch.testing.assert_close(norm(rows), wanted)


def test_a_norm_of_one_real_row_has_the_gradient_of_running_statistics(fuses):
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


def test_fused_path_has_no_second_derivative_and_says_so(fuses, given):
    x, subgraphs, edge_attr = given
    out = make_layer()(x.requires_grad_(), subgraphs, edge_attr)
    (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_uplift_of_a_users_model_is_unaffected(fuses):
    edge_index, nodes = random_graph()
    x = torch.randn(nodes, CHANNELS).double()
    model = uplift(
        GIN(CHANNELS, 8, num_layers=2, out_channels=3, norm="batch_norm"), EgoNets(2)
    ).double()
    with path(fused=False):
        wanted = copy.deepcopy(model)(x, edge_index)
    assert_same(model(x, edge_index), wanted)
    assert not layers_in(fuses)
