"""Edge states that are a line: the same as rows, wherever both can be had."""

import copy

import pytest
import torch

from gnnak.fast.layers.affine import affine_states
from gnnak.models import ModelOptions, build_model
from gnnak.models.layers import Kernel
from gnnak.nn import GNNAK, PUBLISHED, Continuous, Stack
from gnnak.nn.base.convs import gine
from gnnak.nn.features import (
    CategoricalEncoder,
    ConstantEncoder,
    ContinuousEncoder,
)
from gnnak.nn.padding import RealRows, real_rows
from gnnak.subgraphs import EgoNets
from tests.fast.backends import layers_in, path
from tests.fast.kernels.kernel_inputs import assert_same
from tests.fast.layers.fused_layers import (
    random_graph,
    randomize,
    state,
)

EDGES = 9


def an_encoder(training=True):
    """An encoder of one column, with weights at no special value."""
    torch.manual_seed(0)
    encoder = ContinuousEncoder(1, 5).double().train(training)
    randomize(encoder)
    return encoder


def used(encoder, states):
    """What comes of some use of states, and what it changes."""
    weights = torch.linspace(-1, 2, states.numel()).view_as(states)
    (states * weights).sum().backward()
    return {"states": states.detach()} | state(encoder)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("real", [None, EDGES, 5, 2, 1, 0])
@pytest.mark.parametrize("alike", [False, True])
def test_line_is_what_the_encoder_gives(training, real, alike):
    encoder = an_encoder(training)
    other = copy.deepcopy(encoder)
    values = torch.full((EDGES, 1), 0.3) if alike else torch.randn(EDGES, 1)
    values = values.double()
    with real_rows(RealRows(nodes=None if real is None else torch.tensor(real))):
        line, rows = affine_states(encoder, values, EDGES), other(values, EDGES)
    kept = EDGES if real is None or not training else real
    ours, theirs = used(encoder, line.rows()[:kept]), used(other, rows[:kept])
    assert_same(ours, theirs)


def test_line_takes_a_feature_without_columns():
    values = torch.randn(EDGES).double()
    line = affine_states(an_encoder(), values, EDGES)
    assert_same(line.rows(), an_encoder()(values, EDGES))


class Louder(ContinuousEncoder):
    """Not the encoder that a line is known of."""


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
        (Louder(1, 5), torch.zeros(EDGES, 1)),
        (with_hook(), torch.zeros(EDGES, 1)),
        (with_hook_inside(), torch.zeros(EDGES, 1)),
        (ContinuousEncoder(1, 5), torch.zeros(EDGES, 1, requires_grad=True)),
    ],
    ids=[
        "constant",
        "categories",
        "columns",
        "subclass",
        "hook",
        "hook inside",
        "gradient",
    ],
)
def test_other_encodings_are_no_line(encoder, values):
    assert affine_states(encoder, values, EDGES) is None


def test_a_single_edge_is_no_line():
    assert affine_states(an_encoder(), torch.zeros(1, 1), 1) is None


@pytest.mark.parametrize("name", ["gin-ak", "gin-ak+", "gin-ak+-s", "pna*-ak+"])
@pytest.mark.parametrize("training", [True, False])
def test_network_on_a_line_equals_the_general_one(fuses, name, training):
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
    assert fuses.count("run_uplifted") == (2 if name.startswith("gin") else 0)
    assert layers_in(fuses) == 2
    assert_same(*found)


def test_line_may_be_followed_by_training_before_its_gradient():
    encoder, values = an_encoder(training=False), torch.randn(EDGES, 1).double()
    states = affine_states(encoder, values, EDGES).rows()
    wanted = used(copy.deepcopy(encoder), an_encoder(False)(values, EDGES))["states"]
    affine_states(encoder.train(), values, EDGES)
    assert_same(used(encoder, states)["states"], wanted)


class Doubling(GNNAK):
    """A layer of a user's own, that computes with edge states."""

    def forward(self, x, subgraphs, edge_attr=None):
        """Read them twice as large."""
        return super().forward(x, subgraphs, edge_attr * 2)


@pytest.mark.parametrize("kind", ["subclass", "hook"])
def test_whoever_listens_to_a_layer_gets_rows(fuses, kind):
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
