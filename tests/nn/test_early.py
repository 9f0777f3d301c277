"""Rows that are made again early: the same gradients, and nothing is left over."""

import gc
import weakref

import pytest
import torch

from gnnak.nn.fused import early as early_module
from gnnak.nn.fused import pool
from gnnak.nn.kernels import plain as plain_kernels
from gnnak.nn.lanes import Lanes
from tests.gpu import needs_gpu
from tests.models.zoo import small_network
from tests.training.batches.test_padding import padded_and_plain


class Parted(Lanes):
    """A lane that is there, though there is no GPU."""

    joined = 0

    def __init__(self, device):
        super().__init__(device)
        self.parted = True

    def beside(self):
        return torch.enable_grad() if torch.is_grad_enabled() else torch.no_grad()

    def join(self):
        type(self).joined += 1


def gradients(network, item):
    """Of the sum of squares of what the network says."""
    network.zero_grad()
    network(item.batch, subgraphs=item.subgraphs).square().sum().backward()
    return [weight.grad.clone() for weight in network.parameters()]


@pytest.fixture
def made(fuses, monkeypatch):
    """Products of normed rows with a residual, by weak reference."""
    seen, norm_linear = [], plain_kernels.norm_linear

    def noted(h, k, residual, *given):
        found = norm_linear(h, k, residual, *given)
        if residual is not None:
            seen.append(weakref.ref(found[0]))
        return found

    monkeypatch.setattr(plain_kernels, "norm_linear", noted)
    return seen


@pytest.mark.parametrize("name", ["gin-ak+", "gin-ak+-s"])
def test_rows_made_early_give_the_same_gradients(name, made, monkeypatch):
    item = padded_and_plain(name.endswith("-s"))[1][0]
    network = small_network(name).train()
    wanted = gradients(network, item)
    times = len(made)
    monkeypatch.setattr(early_module, "Lanes", Parted)
    monkeypatch.setattr(Parted, "joined", 0)
    made.clear()
    for one, other in zip(gradients(network, item), wanted, strict=True):
        assert torch.equal(one, other)
    assert len(made) == times
    assert Parted.joined == len(network.layers)
    gc.collect()
    assert all(rows() is None for rows in made)


def test_rows_are_made_before_their_layers_gradient_comes_to_its_nodes(
    made, monkeypatch
):
    monkeypatch.setattr(early_module, "Lanes", Parted)
    network, item = small_network("gin-ak+").train(), padded_and_plain()[1][0]
    order, fuse = [], network.layers[-1].kernels[0].gnn.fuse

    def note(_, __, out):
        out.register_hook(lambda _: order.append(len(made)))

    fuse.register_forward_hook(note)
    gradients(network, item)
    layers = len(network.layers)
    assert order == [layers + 1]


def test_large_rows_are_made_when_they_are_asked_for(made, monkeypatch):
    monkeypatch.setattr(early_module, "Lanes", Parted)
    monkeypatch.setattr(early_module, "MOST", 0)
    monkeypatch.setattr(Parted, "joined", 0)
    gradients(small_network("gin-ak+").train(), padded_and_plain()[1][0])
    assert Parted.joined == 0


def test_a_layer_on_its_own_makes_its_rows_when_they_are_asked_for(made, monkeypatch):
    asked = []
    monkeypatch.setattr(pool, "maybe_early", lambda again, _: asked.append(1) or again)
    gradients(small_network("gin-ak+").train(), padded_and_plain()[1][0])
    assert asked


@needs_gpu
def test_rows_made_early_in_a_captured_pass_give_the_same_gradients():
    network = small_network("gin-ak+").float().cuda().train()
    item = padded_and_plain()[1][0]
    batch, subgraphs = item.batch.to("cuda"), item.subgraphs.to("cuda")
    for axis in ("subgraph", "node", "target", "source", "edge"):
        subgraphs.by(axis)
    assert subgraphs.centroid is not None
    assert subgraphs.max_hop >= 0
    assert subgraphs.in_order

    def passed():
        network.zero_grad()
        out = network(batch, subgraphs=subgraphs, num_graphs=batch.num_graphs)
        with torch.autograd.set_multithreading_enabled(False):
            out.square().sum().backward()

    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        for _ in range(2):
            passed()
    torch.cuda.synchronize()
    wanted = [weight.grad.clone() for weight in network.parameters()]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=aside):
        passed()
    graph.replay()
    for weight, other in zip(network.parameters(), wanted, strict=True):
        torch.testing.assert_close(weight.grad, other, rtol=1e-4, atol=1e-4)
