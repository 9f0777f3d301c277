"""Fused layers and kernels on a GPU, in float32."""

import copy

import pytest
import torch

from gnnak.fast.kernels import has_fast_kernels, plain
from gnnak.fast.kernels.records import CentroidRows
from gnnak.models import ModelOptions, build_model
from gnnak.nn import Categorical
from gnnak.subgraphs import EgoNets
from tests.fast.backends import outcome, path
from tests.fast.kernels.kernel_inputs import constants, norm_of, rows
from tests.fast.layers.fused_layers import (
    inputs,
    make_layer,
    random_graph,
    randomize,
    state,
)
from tests.gpu import needs_gpu

CLOSE = 2e-3
FLAT = 1e-3
"""Gradients smaller than this, relative to the largest, are rounding errors only.

The gradient of a bias before a batch norm is zero, for example."""


def both(name, channels, device):
    """Yield results fused in float32, not fused in float32, not fused in float64."""
    torch.manual_seed(0)
    options = ModelOptions(
        num_layers=2,
        base_layers=2,
        channels=channels,
        hop_channels=8,
        subgraphs=EgoNets(2),
    )
    first = build_model(name, Categorical((5,)), Categorical((3,)), 2, options)
    randomize(first)
    edge_index, nodes = random_graph(40, 120)
    features = torch.randint(5, (nodes, 1)), torch.randint(3, (edge_index.size(1), 1))
    x, edge_attr, edge_index, batch = (
        t.to(device) for t in (*features, edge_index, torch.arange(nodes) // 10)
    )
    kinds = (True, torch.float), (False, torch.float), (False, torch.double)
    for fused, dtype in kinds:
        network = copy.deepcopy(first).to(device, dtype).train()
        draw = torch.Generator(device).manual_seed(1)
        with path(fused):
            out = network(x, edge_index, edge_attr, batch, generator=draw)
        weights = torch.linspace(-1, 2, out.numel(), device=device, dtype=dtype)
        weights = weights.view_as(out)
        (out * weights).sum().backward()
        yield {"out": out.detach()} | state(network)


def assert_near(ours, theirs, true, times=2):
    """Assert that `ours` is close to `true`, or not much farther from it than `theirs`.

    The first three arguments are in the order of `both`. The error of `ours` may be
    `times` the error of `theirs`.

    PNA*'s standard deviation of nearly equal messages amplifies rounding errors; there
    the unfused float32 result is just as far from the float64 one.
    """
    least = FLAT * max(float(value.double().norm()) for value in true.values())
    for name, wanted in true.items():
        near = CLOSE * max(wanted.double().norm(), least)
        off = (ours[name] - wanted).double().norm()
        assert off <= max(near, times * (theirs[name] - wanted).double().norm()), name


@needs_gpu
@pytest.mark.parametrize(
    "name", ["gin-ak", "gin-ak+", "gin-ak+-s", "gcn-ak+", "pna*-ak+"]
)
@pytest.mark.parametrize("channels", [24, 128])
def test_fused_network_on_a_gpu_equals_the_general_one(name, channels):
    pytest.importorskip("triton")
    assert has_fast_kernels(torch.zeros(1, device="cuda"))
    assert_near(*both(name, channels, "cuda"))


@needs_gpu
def test_fused_layer_on_a_gpu_is_deterministic():
    pytest.importorskip("triton")
    layer = make_layer(convs=2, hop_channels=60, out=64).float().cuda()
    x, subgraphs, edge_attr = inputs(*random_graph(60, 400), hop_channels=60)
    given = x.float().cuda(), subgraphs.to("cuda"), edge_attr.float().cuda()
    found = [outcome(layer, *given) for _ in range(2)]
    torch.testing.assert_close(*found, rtol=0, atol=0)


@needs_gpu
@pytest.mark.parametrize("rounding", ["ieee", "tf32"])
@pytest.mark.parametrize(
    ("count", "inner", "outer"),
    [(3000, 144, 256), (70_000, 144, 144), (70_000, 5, 130)],
)
def test_products_on_a_gpu_agree_with_plain(count, inner, outer, rounding, monkeypatch):
    pytest.importorskip("triton")
    from gnnak.fast.kernels import gpu

    monkeypatch.setattr(torch.backends.cuda.matmul, "fp32_precision", rounding)
    real = torch.tensor(count - 7)
    h, s, grad = (rows(count, width) for width in (inner, inner, outer))
    k, matrix, offset = constants(h, True, real), rows(outer, inner), rows(1, outer)[0]
    subgraph, norm = torch.arange(count) // 4, norm_of(outer)
    more = CentroidRows(rows(count // 4, inner), subgraph.unique() * 4, subgraph)
    given = (h, k, s, matrix)
    wanted = plain.norm_linear(h, k, matrix, offset, real)[0]
    of_norm = plain.norm_constants(wanted, copy.deepcopy(norm), real)[:4]
    into = torch.empty_like(h)
    back = plain.norm_linear_backward(grad, *given, more, into), into
    given, grad, offset, more = (_on_gpu(part) for part in (given, grad, offset, more))
    h, k, _, matrix = given
    found, moments = gpu.norm_linear(h, k, matrix, offset, real.cuda())
    found_norm = gpu.norm_constants(found, norm.float().cuda(), real.cuda(), moments)
    into = torch.empty_like(given[0])
    found_back = gpu.norm_linear_backward(grad, *given, more, into)
    ours = [found, *found_norm[:4], *found_back, into]
    close = 1e-5 if rounding == "ieee" else 5e-3
    for mine, theirs in zip(ours, [wanted, *of_norm, *back[0], back[1]], strict=True):
        off = (mine.double().cpu() - theirs).norm() / theirs.norm()
        assert off <= close


def _on_gpu(part):
    """Move a tensor, or all tensors of a tuple, to the GPU; floats become float32."""
    if isinstance(part, torch.Tensor):
        return part.float().cuda() if part.is_floating_point() else part.cuda()
    if not isinstance(part, tuple):
        return part
    parts = [_on_gpu(each) for each in part]
    return type(part)(*parts) if hasattr(part, "_fields") else tuple(parts)


def test_has_fast_kernels_is_false_on_a_cpu(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not has_fast_kernels(torch.zeros(1))
