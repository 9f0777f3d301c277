"""Continuous edge features: fused layers match plain ones, and hooks are called."""

import copy
import functools

import pytest
import torch

from gnnak.fast.layers.encoder import can_recompute
from gnnak.fast.layers.parts import blocks_of
from gnnak.models.network import Kernel, OuterLayer, run_with_edges
from gnnak.nn import GNNAK, PUBLISHED, Stack
from gnnak.nn.base.convs import gine
from gnnak.nn.features import ContinuousEncoder
from gnnak.subgraphs import EgoNets
from tests.fast.backends import assert_fused_equals_plain, num_fused_layers
from tests.fast.layers.fused_layers import random_graph, randomize
from tests.models.zoo import continuous_network


def make_encoder():
    """Return an encoder with running statistics, and features [8, 2] for it."""
    torch.manual_seed(0)
    encoder = ContinuousEncoder(2, 5).double()
    encoder(torch.randn(9, 2).double(), 9)
    return encoder, torch.randn(8, 2).double().requires_grad_()


def run(encoder, values, recompute):
    """Return results by name, and if encodings stayed in memory between the passes."""
    references = []

    def compute(states):
        references.append(weakref.ref(states))
        return (states * states).sum() + (states**3).sum()

    if recompute:
        out = run_with_edges(encoder, values, 8, compute)
    else:
        out = compute(encoder(values, 8))
    in_memory = references[0]() is not None
    out.backward()
    found = {"out": out.detach(), "values": values.grad.clone()}
    found |= {name: p.grad for name, p in encoder.named_parameters()}
    return found | dict(encoder.named_buffers()), in_memory


@pytest.mark.parametrize("real", [None, 5])
def test_recomputed_encodings_match_the_encoder(fused_operations, real):
    encoder, values = make_encoder()
    other, same = copy.deepcopy(encoder), values.detach().clone().requires_grad_()
    with real_rows(RealRows(nodes=None if real is None else torch.tensor(real))):
        ours, in_memory = run(encoder, values, recompute=True)
        theirs, _ = run(other, same, recompute=False)
    assert not in_memory
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_encodings_are_not_recomputed_in_checkpoints_or_evaluation(fused_operations):
    encoder, values = make_encoder()
    (block,) = blocks_of(torch.nn.Sequential(encoder.block))
    answers = []

    def work(given):
        answers.append(can_recompute(block, given))
        return run_with_edges(encoder, given, 8, lambda h: h.square().sum())

    work(values)
    checkpoint(work, values, use_reentrant=False).backward()
    with torch.no_grad():
        work(values)
    encoder.eval()
    work(values)
    # The checkpoint calls `work` in the forward pass and again in the backward pass.
    assert answers == [True, False, False, False, False]


def test_encodings_without_fusion_match_the_encoder():
    encoder, values = make_encoder()
    states = run_with_edges(encoder, values, 8, lambda states: states)
    assert torch.equal(states, copy.deepcopy(encoder)(values, 8))


def test_results_are_freed_without_a_backward_pass(fused_operations):
    encoder, values = make_encoder()

    def use(states):
        result = torch.relu(states * 2)
        return torch.sigmoid(result @ torch.ones(5, 3).double())

    result = run_with_edges(encoder, values, 8, use)
    reference = weakref.ref(result)
    del result
    assert reference() is None


def test_changing_a_saved_tensor_in_place_raises(fused_operations):
    encoder, values = make_encoder()
    weight = torch.randn(8, 5).double().requires_grad_()
    doubled = []

    def use(states):
        doubled.append(states * 2)
        return (doubled[0] * weight).sum()

    out = run_with_edges(encoder, values, 8, use)
    doubled[0].detach().mul_(3)
    with pytest.raises(RuntimeError, match="changed in place; change a clone"):
        out.backward()


def test_encodings_changed_in_place_are_saved_for_backward(fused_operations):
    encoder, values = make_encoder()
    weight = torch.ones(8, 5).double().requires_grad_()
    changed = []

    def use(states):
        changed.append(states.mul_(3))
        return (states * weight).sum()

    out = run_with_edges(encoder, values, 8, use)
    wanted = changed[0].detach().clone()
    out.backward()
    assert torch.equal(weight.grad, wanted)


@pytest.mark.parametrize("kind", ["hook", "subclass"])
def test_subclasses_and_hooks_of_an_encoder_are_called(fused_operations, kind):
    class Subclass(ContinuousEncoder):
        def forward(self, values, num_rows):
            calls.append(num_rows)
            return super().forward(values, num_rows)

    calls, gnn = [], gine(5)
    encoder = Subclass(2, 5) if kind == "subclass" else ContinuousEncoder(2, 5)
    if kind == "hook":
        encoder.register_forward_hook(lambda module, given, out: calls.append(given[1]))
    kernel = Kernel(gnn, 5, encoder)
    edge_index, batch = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.zeros(3).long()
    kernel(torch.randn(3, 5), edge_index, torch.randn(3, 2), batch, None)
    assert calls == [3]


@pytest.mark.parametrize("name", ["gin-ak", "gin-ak+", "gin-ak+-s", "pna*-ak+"])
@pytest.mark.parametrize("training", [True, False])
def test_network_on_continuous_edges_matches_plain(fused_operations, name, training):
    options = {"base_layers": 2, "channels": 6, "subgraphs": EgoNets(2)}
    network = continuous_network(name, **options).train(training)
    randomize(network)
    edge_index, nodes = random_graph()
    x, edge_attr = torch.randn(nodes, 4), torch.randn(edge_index.size(1), 3)
    given = x.double(), edge_index, edge_attr.double(), torch.arange(nodes) // 4
    assert_fused_equals_plain(network, *given, close=1e-9, seed=1)
    layers = len(network.layers)
    assert fused_operations.count("run_with_edges") == (layers if training else 0)
    assert num_fused_layers(fused_operations) == layers


OPTIONS = {"hop_channels": 3, "max_hops": 2, "options": PUBLISHED}


class Doubling(GNNAK):
    def forward(self, x, subgraphs, edge_attr=None):
        return super().forward(x, subgraphs, edge_attr * 2)


@pytest.mark.parametrize("kind", ["subclass", "hook"])
def test_subclasses_and_hooks_of_a_layer_get_a_tensor_of_edges(fused_operations, kind):
    seen = []
    make = Doubling if kind == "subclass" else GNNAK
    layer = make(Stack([gine(7)], 7), 4, 4, **OPTIONS)
    if kind == "hook":
        layer.register_forward_pre_hook(lambda _, given: seen.append(given[2]))
    kernel = Kernel(layer, 4, ContinuousEncoder(1, 7)).double()
    edge_index, nodes = random_graph()
    subgraphs = EgoNets(2)(edge_index, nodes)
    x, edge_attr = torch.randn(nodes, 4).double(), torch.randn(40, 1).double()
    kernel(x, edge_index, edge_attr, torch.zeros(nodes).long(), subgraphs)
    assert all(states.shape == (40, 7) for states in seen)
    assert len(seen) == (kind == "hook")


@pytest.mark.parametrize("kind", ["forward", "backward"])
def test_hooks_of_every_module_are_called(fused_operations, kind):
    called = []
    layer = GNNAK(Stack([gine(7)], 7), 4, 4, **OPTIONS)
    outer = OuterLayer([Kernel(layer, 4, ContinuousEncoder(1, 7))], 4).double()
    for name in ("kernels.0.gnn", "kernels.0.edge_encoder", "after"):
        module = outer.get_submodule(name)
        hook = functools.partial(lambda name, *_: called.append(name), name)
        if kind == "forward":
            module.register_forward_hook(hook)
        else:
            module.register_full_backward_hook(hook)
    edge_index, nodes = random_graph()
    x = torch.randn(nodes, 4).double().requires_grad_()
    edge_attr = torch.randn(edge_index.size(1), 1).double().requires_grad_()
    batch, subgraphs = torch.zeros(nodes).long(), EgoNets(2)(edge_index, nodes)
    outer(x, edge_index, edge_attr, batch, subgraphs).sum().backward()
    assert sorted(called) == ["after", "kernels.0.edge_encoder", "kernels.0.gnn"]
