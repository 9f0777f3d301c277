"""Fused layers with autocast to bfloat16, beside plain PyTorch with autocast."""

import copy

import pytest
import torch
from torch import Tensor

from gnnak import LayerOptions
from gnnak.nn.base.convs import gcn
from gnnak.nn.base.pna import PNAStarConv
from tests.fast.backends import num_fused_layers, path
from tests.fast.layers.fused_layers import (
    LAYERS,
    PAIR_LAYERS,
    hops_of,
    inputs,
    make_layer,
    random_graph,
    state,
)
from tests.models.zoo import molecule_batch, small_network

pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")

CASES = (
    LAYERS
    | PAIR_LAYERS
    | {
        "two convs, two blocks": {"convs": 2, "options": LayerOptions(mlp_layers=2)},
        "gcn": {"conv": gcn},
        "pna*": {"conv": lambda width: PNAStarConv(width, width)},
    }
)
"""By name, the options of `make_layer`."""


def results(layer, x, *given, autocast):
    """Return output, gradients and buffers of a layer, with or without autocast."""
    layer = copy.deepcopy(layer)
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        out = layer(x, *given)
    (out * torch.linspace(-1, 2, out.numel()).view_as(out)).sum().backward()
    return {"out": out.detach(), "x": x.grad} | state(layer)


def error(found, wanted, names):
    """Return the error of some results together, relative to their norm."""
    off = [(found[name].double() - wanted[name]).flatten() for name in names]
    size = [wanted[name].flatten() for name in names]
    return float(torch.cat(off).norm() / torch.cat(size).norm())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_fused_layer_with_autocast_is_as_exact_as_plain(
    fused_operations, name, training
):
    options = CASES[name]
    layer = make_layer(**options).train(training)
    x, subgraphs, edge_attr = inputs(*random_graph(80, 300), **hops_of(options))
    given = [x, subgraphs] if name == "gcn" else [x, subgraphs, edge_attr]
    with path(fused=False):
        wanted = results(layer, *given, autocast=False)
    layer.float()
    given = [one.float() if isinstance(one, Tensor) else one for one in given]
    fused = results(layer, *given, autocast=True)
    assert num_fused_layers(fused_operations) == 1
    with path(fused=False):
        plain = results(layer, *given, autocast=True)
    assert error(fused, wanted, ["out"]) < max(0.01, 2 * error(plain, wanted, ["out"]))
    gradients = [name for name, _ in layer.named_parameters()]
    off = error(fused, wanted, gradients)
    assert off < max(0.05, 2 * error(plain, wanted, gradients))
    assert all(fused[name].dtype == torch.float for name in gradients)
    buffers = [name for name, value in layer.named_buffers() if value.numel() > 1]
    assert error(fused, wanted, buffers) < 0.01


@pytest.mark.parametrize(
    "name",
    ["gin", "gin-ak", "gin-ak+", "gin-ak+-s", "gcn-ak+", "pna*-ak+", "sswl+-gin"],
)
def test_network_with_autocast_is_as_exact_as_plain_pytorch(fused_operations, name):
    network, batch = small_network(name).float().train(), molecule_batch()
    wide = copy.deepcopy(network).double()
    found = {}
    for kind, model in (("wanted", wide), ("fused", network), ("plain", network)):
        model = copy.deepcopy(model)
        on = torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind != "wanted")
        with path(fused=kind == "fused"), on:
            out = model(batch, generator=torch.Generator().manual_seed(1))
        out.double().square().sum().backward()
        found[kind] = {"out": out.detach()} | state(model)
    weights = [name for name, _ in network.named_parameters()]
    for names in (["out"], weights):
        off, allowed = (
            error(found[kind], found["wanted"], names) for kind in ("fused", "plain")
        )
        assert off < max(0.05, 2 * allowed)


def test_autocast_leaves_float64_as_it_is(fused_operations):
    network, batch = small_network("sswl+-gin").double().train(), molecule_batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert network(batch).dtype == torch.double
