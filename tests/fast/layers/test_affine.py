"""Edge states in affine form: equal to the states that the encoder returns."""

import copy
import functools

import pytest
import torch

from gnnak.fast.layers.encoder import affine_states
from gnnak.models import ModelOptions, build_model
from gnnak.models.network import Kernel, OuterLayer
from gnnak.nn import GNNAK, PUBLISHED, Continuous, Stack
from gnnak.nn.base.convs import gine
from gnnak.nn.features import (
    CategoricalEncoder,
    ConstantEncoder,
    ContinuousEncoder,
)
from gnnak.nn.padding import RealRows, real_rows
from gnnak.subgraphs import EgoNets
from tests.fast.backends import num_fused_layers, path
from tests.fast.kernels.kernel_inputs import assert_same
from tests.fast.layers.fused_layers import (
    random_graph,
    randomize,
    state,
)

EDGES = 9


def make_encoder(training=True):
    """Build an encoder of one feature with random weights and running statistics."""
    torch.manual_seed(0)
    encoder = ContinuousEncoder(1, 5).double().train(training)
    randomize(encoder)
    return encoder


def results_of(encoder, states):
    """Return the states, and gradients and buffers of the encoder after backward."""
    weights = torch.linspace(-1, 2, states.numel()).view_as(states)
    (states * weights).sum().backward()
    return {"states": states.detach()} | state(encoder)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("real", [None, EDGES, 5, 2, 1, 0])
@pytest.mark.parametrize("constant", [False, True])
def test_affine_states_match_the_encoder(training, real, constant):
    encoder = make_encoder(training)
    other = copy.deepcopy(encoder)
    values = torch.full((EDGES, 1), 0.3) if constant else torch.randn(EDGES, 1)
    values = values.double()
    with real_rows(RealRows(nodes=None if real is None else torch.tensor(real))):
        affine, rows = affine_states(encoder, values, EDGES), other(values, EDGES)
    count = EDGES if real is None or not training else real
    ours = results_of(encoder, affine.rows()[:count])
    assert_same(ours, results_of(other, rows[:count]))


def test_affine_states_take_features_of_shape_e():
    values = torch.randn(EDGES).double()
    affine = affine_states(make_encoder(), values, EDGES)
    assert_same(affine.rows(), make_encoder()(values, EDGES))


class Subclass(ContinuousEncoder):
    """A subclass, which might compute something else."""


def with_hook():
    encoder = ContinuousEncoder(1, 5)
    encoder.register_forward_hook(lambda *_: None)
    return encoder


def with_hook_inside():
    encoder = ContinuousEncoder(1, 5)
    encoder.block[1].register_forward_hook(lambda *_: None)
    return encoder


@pytest.mark.parametrize(
    ("encoder", "values"),
    [
        (ConstantEncoder(5), None),
        (CategoricalEncoder((3,), 5), torch.zeros(EDGES, 1).long()),
        (ContinuousEncoder(2, 5), torch.zeros(EDGES, 2)),
        (Subclass(1, 5), torch.zeros(EDGES, 1)),
        (with_hook(), torch.zeros(EDGES, 1)),
        (with_hook_inside(), torch.zeros(EDGES, 1)),
        (ContinuousEncoder(1, 5), torch.zeros(EDGES, 1, requires_grad=True)),
    ],
    ids=[
        "constant",
        "categories",
        "two features",
        "subclass",
        "hook",
        "hook inside",
        "features with gradient",
    ],
)
def test_affine_states_are_none_for_other_encoders(encoder, values):
    assert affine_states(encoder, values, EDGES) is None


def test_affine_states_are_none_for_a_single_edge():
    assert affine_states(make_encoder(), torch.zeros(1, 1), 1) is None


@pytest.mark.parametrize("name", ["gin-ak", "gin-ak+", "gin-ak+-s", "pna*-ak+"])
@pytest.mark.parametrize("training", [True, False])
def test_network_on_affine_edge_states_matches_plain(fused_operations, name, training):
    torch.manual_seed(0)
    options = ModelOptions(
        num_layers=2, base_layers=2, channels=6, hop_channels=3, subgraphs=EgoNets(2)
    )
    network = build_model(name, Continuous(2), Continuous(1), 3, options).double()
    randomize(network)
    edge_index, nodes = random_graph()
    given = (torch.randn(nodes, 2).double(), edge_index)
    given += (torch.randn(edge_index.size(1), 1).double(), torch.arange(nodes) // 4)
    found = []
    for fused in (True, False):
        one = copy.deepcopy(network).train(training)
        with path(fused):
            out = one(*given, generator=torch.Generator().manual_seed(1))
        out.square().sum().backward()
        found.append({"out": out.detach()} | state(one))
    assert fused_operations.count("run_uplifted") == (
        2 if name.startswith("gin") else 0
    )
    assert num_fused_layers(fused_operations) == 2
    assert_same(*found)


def test_gradient_of_affine_states_ignores_later_updates_of_running_statistics():
    values, gradients = torch.randn(EDGES, 1).double(), []
    for trains in (False, True):
        encoder = make_encoder(training=False)
        states = affine_states(encoder, values, EDGES).rows()
        if trains:
            affine_states(encoder.train(), values, EDGES)
        results_of(encoder, states)
        gradients.append([parameter.grad for parameter in encoder.parameters()])
    assert_same(*gradients)


class Doubling(GNNAK):
    """A user-defined layer that reads the edge states as a tensor."""

    def forward(self, x, subgraphs, edge_attr=None):
        """Run the layer on doubled edge states."""
        return super().forward(x, subgraphs, edge_attr * 2)


@pytest.mark.parametrize("kind", ["subclass", "hook"])
def test_subclasses_and_hooks_of_a_layer_get_edge_states_as_a_tensor(
    fused_operations, kind
):
    seen = []
    make = Doubling if kind == "subclass" else GNNAK
    layer = make(
        Stack([gine(7)], 7), 4, 4, hop_channels=3, max_hops=2, options=PUBLISHED
    )
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
    layer = GNNAK(
        Stack([gine(7)], 7), 4, 4, hop_channels=3, max_hops=2, options=PUBLISHED
    )
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
    given = (
        edge_index,
        edge_attr,
        torch.zeros(nodes).long(),
        EgoNets(2)(edge_index, nodes),
    )
    outer(x, *given).sum().backward()
    assert sorted(called) == ["after", "kernels.0.edge_encoder", "kernels.0.gnn"]
