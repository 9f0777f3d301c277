"""How a step calls a model: with the whole batch, or by the names of parameters."""

import copy
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    GATConv,
    GCNConv,
    GINEConv,
    Linear,
    SAGEConv,
)

from gnnak import EgoNets, GraphLoader, TrainingStep, uplift
from gnnak.errors import EdgeAttrError, OptionError
from gnnak.graphs.readers.pyg import from_pyg
from gnnak.loop.calling import CastTogether, call_model
from gnnak.models import ModelOptions, build_model
from gnnak.nn import Call
from gnnak.nn.features import Categorical
from tests.loop.models import Gine, TakesBatch, molecules


class Model(nn.Module):
    """A model that returns a tuple of its arguments; the tests define `forward`."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)


class Wrapper(nn.Module):
    """A user's wrapper, which passes on all arguments."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


def step_of(model: nn.Module, **options: object) -> TrainingStep:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return TrainingStep(model, lambda out, batch: out.mean(), optimizer, **options)


@pytest.fixture
def batch() -> Batch:
    return Batch.from_data_list(molecules(3))


@pytest.mark.parametrize("kind", ["plain", "uplifted"])
@pytest.mark.parametrize("gnn", [GCN, GIN])
def test_call_model_calls_the_models_of_pyg_with_one_graph(gnn, kind):
    model = gnn(4, 8, 2, out_channels=2).double()
    model = uplift(model, num_hops=1) if kind == "uplifted" else model
    (graph,) = molecules(1)
    graph.edge_attr = None
    found = call_model(model, graph)
    torch.testing.assert_close(found, model(graph.x, graph.edge_index))
    torch.testing.assert_close(step_of(model)(graph), found.detach().mean())


def test_call_model_passes_a_single_graph_as_a_batch_of_one_graph():
    class Needs(Model):
        def forward(self, x, batch, num_graphs, batch_size, num_nodes):
            return batch, num_graphs, batch_size, num_nodes

    class Defaults(Model):
        def forward(self, x, edge_index, batch="b", num_graphs="g", batch_size="s"):
            return batch, num_graphs, batch_size

    (graph,) = molecules(1)
    batch, *counts = call_model(Needs(), graph)
    assert torch.equal(batch, torch.zeros(3, dtype=torch.long))
    assert counts == [1, 1, 3]
    assert call_model(Defaults(), graph) == ("b", "g", "s")


def test_call_model_reads_the_graphs_of_a_data_with_a_vector_batch(batch):
    class Needs(Model):
        def forward(self, x, batch, num_graphs):
            return batch, num_graphs

    graph = Data(x=batch.x, batch=batch.batch)
    vector, graphs = call_model(Needs(), graph)
    assert vector is batch.batch
    assert graphs == 3


def test_call_model_runs_a_network_on_one_graph_and_on_a_graph_batch():
    options = ModelOptions(channels=4, num_layers=1)
    model = build_model("gin", Categorical((1,)), None, 1, options).eval()
    (graph,) = molecules(1)
    graph = Data(x=torch.zeros(3, 1).long(), edge_index=graph.edge_index)
    wanted = model(graph.x, graph.edge_index)
    torch.testing.assert_close(call_model(model, graph), wanted)
    batch = from_pyg([graph]).union()
    torch.testing.assert_close(call_model(model, batch), wanted)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (molecules(2), "a list"),
        (None, "None"),
        (tuple(molecules(2)), "a tuple"),
        ({"x": torch.rand(3, 4)}, "a dict"),
        (GraphLoader(molecules(2)), "a GraphLoader"),
        (torch.rand(3, 4), "a Tensor"),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_call_model_refuses_what_is_no_batch(given, kind, whole):
    model = TakesBatch(Gine()) if whole else Gine()
    with pytest.raises(OptionError, match=f"the step got {kind}; give a batch of a"):
        step_of(model)(given)


def test_a_call_of_the_user_takes_any_batch():
    class Takes(Model):
        def forward(self, features):
            return self.linear(features)

    step = step_of(Takes(), call=lambda model, batch: model(batch["features"]))
    assert step({"features": torch.rand(3, 4)}).isfinite()


@pytest.mark.parametrize(
    "conv",
    [
        SAGEConv(4, 4),
        GCNConv(4, 4),
        GATConv(4, 4, edge_dim=3),
        GINEConv(nn.Linear(4, 4), edge_dim=3),
    ],
    ids=lambda conv: type(conv).__name__,
)
def test_call_model_calls_an_uplifted_conv_like_the_conv(conv, batch):
    net = uplift(conv, num_hops=1).double()
    reads = isinstance(conv, GATConv | GINEConv)
    further = {"edge_attr": batch.edge_attr} if reads else {}
    wanted = net(batch.x, batch.edge_index, **further)
    torch.testing.assert_close(call_model(net, batch), wanted)


def test_call_model_calls_a_lazy_uplifted_conv_and_one_with_a_call(batch):
    class Own(nn.Module):
        def __init__(self, conv):
            super().__init__()
            self.conv = conv

        def forward(self, edge_index, x):
            return self.conv(x, edge_index)

    lazy = uplift(SAGEConv(-1, 4), num_hops=1)
    own = Own(SAGEConv(4, 4))
    own = uplift(own, num_hops=1, call={"": Call(states="x", edges="edge_index")})
    for net in (lazy, own):
        net = net.double().eval()
        found = call_model(net, batch)
        wanted = net(x=batch.x, edge_index=batch.edge_index)
        torch.testing.assert_close(found, wanted)


def test_call_model_passes_positional_only_parameters_by_position(batch):
    class Only(Model):
        def forward(self, x, scale=2.0, edge_index=None, /, batch=None, *, y):
            return x, scale, edge_index, batch, y

    found = call_model(Only(), batch)
    wanted = (batch.x, 2.0, batch.edge_index, batch.batch, batch.y)
    assert all(a is b for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("whole", [False, True])
def test_call_model_calls_a_wrapper_like_the_model_inside(whole, batch):
    model = Gine().double().eval()
    wanted = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    model = TakesBatch(model) if whole else model
    for wrapper in (Wrapper(model), Wrapper(Wrapper(model))):
        torch.testing.assert_close(call_model(wrapper, batch), wanted)


def test_call_model_refuses_forward_without_named_parameters(batch):
    class Stars(Model):
        def forward(self, *args, **kwargs):
            return self.linear(*args)

    class Nothing(Model):
        def forward(self):
            return self.linear.weight

    for model in (Stars(), Nothing()):
        name = type(model).__name__
        with pytest.raises(OptionError, match=f"{name}.forward names no parameters; g"):
            step_of(model)(batch)


def test_call_model_refuses_data_parallel(batch):
    with pytest.raises(OptionError, match="DataParallel splits the rows of a batch"):
        step_of(nn.DataParallel(Gine()))(batch)


class Named(Model):
    """A model with a parameter for a field that has no rows, or is missing."""

    def forward(self, x, edge_index, name):
        return self.linear(x)


def test_call_model_lists_the_fields_of_a_batch_without_internal_ones():
    graphs = molecules(6)
    loader = GraphLoader(graphs, 3, subgraphs=EgoNets(1), pad=True)
    wanted = (
        "Named.forward needs 'name', but the batch has only batch, edge_attr, "
        "edge_index, ptr, subgraphs, x, y; give call=lambda model, batch: "
        r"model\(...\)\.$"
    )
    with pytest.raises(OptionError, match=wanted):
        step_of(Named().double())(next(iter(loader)))


def test_training_step_says_how_to_leave_out_edge_attributes():
    net = uplift(GAT(4, 8, 2, 1), num_hops=2).double()
    batch = next(iter(GraphLoader(molecules(3), 3)))
    net(batch.x, batch.edge_index)
    wanted = r"GATConv does not read edge .*; the step passes .* give call=lambda"
    with pytest.raises(EdgeAttrError, match=wanted):
        step_of(net)(batch)


def test_training_step_names_a_field_that_cannot_be_padded(calls):
    graphs = copy.deepcopy(molecules(6))
    for number, graph in enumerate(graphs):
        graph.name = f"graph {number}"
    step = step_of(Named().double())
    step(next(iter(GraphLoader(graphs, 3, pad=True))))
    assert step.reason == "Named.forward needs 'name', a field that cannot be padded"


def gradients(model, call):
    """Return the output of `call(model)`, and the gradients of all weights."""
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        out = call(model)
    out.float().sum().backward()
    return out, [weight.grad for weight in model.parameters()]


def assert_same(model, call):
    other = deepcopy(model)

    def together(model):
        with CastTogether(model):
            return call(model)

    found, wanted = gradients(model, together), gradients(other, call)
    assert found[0].dtype == wanted[0].dtype
    assert torch.equal(found[0], wanted[0])
    for one, two in zip(found[1], wanted[1], strict=True):
        assert (one is None) == (two is None)
        assert one is None or (one.dtype == two.dtype and torch.equal(one, two))


def test_values_and_gradients_are_those_of_autocast():
    mlp = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3, bias=False))
    x = torch.rand(5, 4)
    assert_same(mlp, lambda model: model(x))


def test_an_uplifted_model_has_the_values_of_autocast():
    (batch,) = GraphLoader(molecules(6), 6, subgraphs=EgoNets(1))
    model = uplift(Gine().float(), num_hops=1).train()
    fields = (batch.x.float(), batch.edge_index, batch.edge_attr.float(), batch.batch)
    assert_same(model, lambda model: model(*fields))


def test_frozen_weights_and_linears_of_pyg():
    mlp = nn.Sequential(Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    mlp[0].requires_grad_(False)
    x = torch.rand(5, 4)
    assert_same(mlp, lambda model: model(x))
    with torch.autocast("cpu", torch.bfloat16), CastTogether(mlp):
        assert not mlp[0](x).requires_grad
    mlp[0].requires_grad_(True)
    assert_same(mlp, lambda model: model(x))


def test_a_weight_that_the_forward_pass_changes():
    class Clamped(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            with torch.no_grad():
                self.linear.weight.clamp_(-0.1, 0.1)
            return self.linear(x)

    x = torch.rand(5, 4)
    assert_same(Clamped(), lambda model: model(x))


@pytest.mark.parametrize("inner", [None, torch.float16])
def test_autocast_that_the_model_changes(inner):
    linear, x = nn.Linear(4, 4), torch.rand(5, 4)

    def call(model):
        with torch.autocast("cpu", inner or torch.bfloat16, enabled=inner is not None):
            return model(x)

    assert_same(linear, call)


def test_gradients_of_weights_can_be_differentiated_again():
    linear, x = nn.Linear(4, 4), torch.rand(5, 4)
    with torch.autocast("cpu", torch.bfloat16), CastTogether(linear):
        loss = linear(x).float().square().sum()
    (grad,) = torch.autograd.grad(loss, linear.weight, create_graph=True)
    grad.sum().backward()
    assert linear.weight.grad is not None


def test_a_weight_that_is_used_twice_or_not_at_all():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.used(self.used(x))

    x = torch.rand(5, 4)
    assert_same(Twice(), lambda model: model(x))


def test_other_functions_get_the_weights_in_full_precision():
    linear = nn.Linear(3, 3)
    seen = []
    with torch.autocast("cpu", torch.bfloat16), CastTogether(linear):
        seen = [linear.weight.exp().dtype, linear(torch.rand(2, 3)).dtype]
        tied = F.linear(input=torch.rand(2, 3), weight=linear.weight)
    assert seen == [torch.float32, torch.bfloat16]
    assert tied.dtype == torch.bfloat16


def test_without_autocast_nothing_is_cast():
    linear = nn.Linear(3, 3)
    with CastTogether(linear):
        assert linear(torch.rand(2, 3)).dtype == torch.float32
