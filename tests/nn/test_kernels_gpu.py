"""The fused path on a GPU, where float32 alone has fast kernels."""

import copy

import pytest
import torch

from gnnak.models import ModelOptions, build_model
from gnnak.nn import Categorical
from gnnak.nn.kernels import has_fast_kernels
from gnnak.subgraphs import EgoNets
from tests.gpu import needs_gpu
from tests.nn.fused_layers import (
    computed,
    inputs,
    make_layer,
    random_graph,
    randomize,
    state,
)

CLOSE = 2e-3
FLAT = 1e-3
"""Gradients this much smaller than all together are rounding: biases before norms."""


def both(name, channels, device):
    """Everything that a network computes and changes, fused and not."""
    torch.manual_seed(0)
    options = ModelOptions(2, 2, channels, hop_channels=8, extractor=EgoNets(2))
    first = build_model(name, Categorical((5,)), Categorical((3,)), 2, options)
    randomize(first)
    edge_index, nodes = random_graph(40, 120)
    features = torch.randint(5, (nodes, 1)), torch.randint(3, (edge_index.size(1), 1))
    x, edge_attr, edge_index, batch = (
        t.to(device) for t in (*features, edge_index, torch.arange(nodes) // 10)
    )
    for fused in (True, False):
        network = copy.deepcopy(first).to(device).train()
        network.use_fused(fused)
        draw = torch.Generator(device).manual_seed(1)
        out = network(x, edge_index, edge_attr, batch, generator=draw)
        weights = torch.linspace(-1, 2, out.numel(), device=device).view_as(out)
        (out * weights).sum().backward()
        yield {"out": out.detach()} | state(network)


def assert_near(ours, theirs):
    least = FLAT * max(float(value.double().norm()) for value in theirs.values())
    for name, wanted in theirs.items():
        off = (ours[name] - wanted).double().norm()
        assert off <= CLOSE * max(wanted.double().norm(), least), name


@needs_gpu
@pytest.mark.parametrize("name", ["gin-ak", "gin-ak+", "gin-ak+-s"])
@pytest.mark.parametrize("channels", [24, 128])
def test_fused_network_on_a_gpu_equals_the_general_one(name, channels):
    pytest.importorskip("triton")
    assert has_fast_kernels(torch.zeros(1, device="cuda"))
    assert_near(*both(name, channels, "cuda"))


@needs_gpu
def test_fused_layer_on_a_gpu_gives_the_same_bits_again():
    pytest.importorskip("triton")
    layer = make_layer(convs=2, hop_channels=60, out=64).float().cuda()
    x, subgraphs, edge_attr = inputs(*random_graph(60, 400), hop_channels=60)
    given = x.float().cuda(), subgraphs.to("cuda"), edge_attr.float().cuda()
    first, second = (computed(copy.deepcopy(layer), *given) for _ in range(2))
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_has_fast_kernels_for_float32_on_a_gpu_alone(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not has_fast_kernels(torch.zeros(1))
