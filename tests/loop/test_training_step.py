import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCN, GIN, LGConv, PairNorm, global_mean_pool

from gnnak import EgoNets, GraphLoader, SubgraphDrop, TrainingStep, uplift
from gnnak.backend import use_backend
from gnnak.errors import OptionError, SizeError, SubgraphError
from gnnak.loop import training_step as training_step_module
from gnnak.models import ModelOptions, build_model
from gnnak.nn.features import Categorical
from gnnak.subgraphs.attached import unchanged
from tests.loop.models import (
    Gine,
    TakesBatch,
    assert_same_weights,
    by_hand,
    by_step,
    mae,
    molecules,
    twins,
)
from tests.loop.test_padded_loss import padded_mae
from tests.nn.test_whole_model_state import WRITERS

WAYS = {"plain": False, "padded": True}
TASKS = {"graphs": False, "nodes": True}


def named(model, batch):
    return model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)


def epochs(loader, count: int = 2):
    """Two epochs of ten batches, of which the last is small: 20 steps."""
    for _ in range(count):
        yield from loader


@pytest.fixture(params=WAYS)
def padded(request):
    """Whether batches are padded; a capture is then replaced by calls."""
    if WAYS[request.param]:
        request.getfixturevalue("calls")
    return WAYS[request.param]


@pytest.mark.parametrize("nodes", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize(
    "kind", ["plain", pytest.param("uplifted", marks=pytest.mark.slow)]
)
def test_training_step_equals_the_loop_written_by_hand(kind, nodes, padded):
    model = Gine(nodes=nodes)
    if kind == "uplifted":
        model = uplift(model, num_hops=1)
    one, other = twins(model)
    graphs = molecules(29, nodes=nodes)
    options = {} if kind == "plain" else {"subgraphs": EgoNets(1)}
    loader = GraphLoader(graphs, 3, pad=padded, **options)
    theirs = DataLoader(graphs, 3)
    wanted = by_hand(other, epochs(theirs), named, clip=0.5, scheduler=True)
    found, step = by_step(one, epochs(loader), clip=0.5, scheduler=True)
    assert len(found) == 20
    assert step.reason is None
    # Adam magnifies the rounding of gradients that are zero, such as those of a bias
    # before a BatchNorm.
    assert found == pytest.approx(wanted, rel=1e-7 if padded else 0, abs=0)
    assert_same_weights(one, other, 1e-6 if padded else 0.0)
    assert bool(step._captured) == padded


def test_training_step_calls_a_model_with_the_whole_batch(padded):
    one, other = twins(TakesBatch(Gine()))
    graphs = molecules(9)
    found, step = by_step(one, GraphLoader(graphs, 3, pad=padded))
    wanted = by_hand(other, DataLoader(graphs, 3), lambda m, b: m(b))
    assert step.reason is None
    assert found == pytest.approx(wanted, rel=1e-7)


def test_training_step_takes_batches_of_pyg(padded):
    one, other = twins(Gine())
    theirs = DataLoader(molecules(12), 4)
    assert by_step(one, theirs)[0] == by_hand(other, theirs, named)


def test_training_step_with_subgraph_drop_equals_the_plain_loop(padded):
    one, other = twins(uplift(Gine(), num_hops=1))
    drop = SubgraphDrop("random", 1)
    loaders = [
        GraphLoader(molecules(12), 3, subgraphs=EgoNets(1), drop=drop, pad=pad)
        for pad in (padded, False)
    ]
    found, step = by_step(one, epochs(loaders[0]))
    wanted = by_hand(other, epochs(loaders[1]), named)
    assert step.reason is None
    assert found == pytest.approx(wanted, rel=1e-7)


def test_training_step_runs_a_network(padded):
    graphs = [
        Data(x=torch.zeros(g.num_nodes, 1).long(), edge_index=g.edge_index, y=g.y)
        for g in molecules(9)
    ]
    options = ModelOptions(channels=4, num_layers=1, hop_channels=2)
    one, other = twins(build_model("gin-ak+", Categorical((1,)), None, 1, options))

    def loss(output, batch):
        return (output.flatten() - batch.y).abs().mean()

    steps = [
        TrainingStep(net, loss, torch.optim.SGD(net.parameters(), 0.1))
        for net in (one, other)
    ]
    loader = GraphLoader(graphs, 3, subgraphs=EgoNets(3), pad=padded)
    ours = [float(steps[0](batch)) for batch in loader]
    theirs = [float(steps[1](batch)) for batch in DataLoader(graphs, 3)]
    assert steps[0].reason is None
    assert ours == pytest.approx(theirs, rel=1e-7)


def test_training_step_sees_fields_that_were_replaced_or_written_to(padded):
    one, other = twins(Gine())

    def changed(loader):
        for number, batch in enumerate(loader):
            if number % 3 == 1:
                batch.x = batch.x * 2
            if number % 3 == 2:
                batch.x.mul_(3)
                batch.noise = torch.ones(batch.num_nodes)
            yield batch

    graphs = molecules(18)
    found, step = by_step(one, changed(GraphLoader(graphs, 3, pad=padded)))
    wanted = by_hand(other, changed(DataLoader(graphs, 3)), named)
    assert step.reason is None
    assert found == pytest.approx(wanted, rel=1e-7)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_training_step_notices_every_way_to_overwrite_edges(padded, write):
    one, other = twins(uplift(Gine(), num_hops=1))

    def changed(loader):
        for number, batch in enumerate(loader):
            if number % 3 == 1:
                loops = batch.edge_index[:1].repeat(2, 1)
                write(batch.edge_index, loops)
            yield batch

    graphs = molecules(18)
    loader = GraphLoader(graphs, 3, subgraphs=EgoNets(1), pad=padded)
    found, step = by_step(one, changed(loader))
    wanted = by_hand(other, changed(DataLoader(graphs, 3)), named)
    assert step.reason is None
    assert found == pytest.approx(wanted, rel=1e-7)


class OnGpu(torch.Tensor):
    """A tensor that seems to be on a GPU."""

    is_cuda = True


@pytest.mark.parametrize("padded_loss", [False, True])
def test_overwritten_edges_make_captured_steps_nan_and_the_next_step_raises(
    monkeypatch, calls, padded_loss
):
    def unread(edges):
        return unchanged(edges).as_subclass(OnGpu)

    monkeypatch.setattr(training_step_module, "unchanged", unread)
    model = uplift(Gine(), num_hops=1).double()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    options = {"padded_loss": padded_loss, "loss": padded_mae if padded_loss else mae}
    step = TrainingStep(model, optimizer=optimizer, **options)
    loader = GraphLoader(molecules(18), 3, subgraphs=EgoNets(1), pad=True)
    first, second, third, *_ = loader
    for batch, write, seen in (
        # Before the first capture, edges are compared on the host.
        (first, True, torch.isfinite),
        (first, False, torch.isfinite),
        (second, False, torch.isfinite),
        (third, True, torch.isnan),
    ):
        if write:
            batch.edge_index.data.copy_(batch.edge_index[:1].repeat(2, 1))
        assert seen(step(batch))
        assert seen(torch.stack([w.sum() for w in model.parameters()])).all()
    with pytest.raises(SubgraphError, match=r"edge_index of an earlier batch was over"):
        step(second)
    assert step(second).isnan()


def test_training_step_takes_a_call_of_the_user(padded):
    one, other = twins(Gine())
    graphs = molecules(9)

    def call(model, batch):
        return model(batch.x + 1, batch.edge_index, batch.edge_attr, batch.batch)

    found, _ = by_step(one, GraphLoader(graphs, 3, pad=padded), call=call)
    assert found == pytest.approx(by_hand(other, DataLoader(graphs, 3), call), 1e-7)


def test_training_step_of_outputs_in_a_dict_and_a_loss_of_weights(padded):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = Gine()
            self.more = nn.Linear(4, 1)

        def forward(self, x, edge_index, edge_attr, batch):
            out = self.inside(x, edge_index, edge_attr, batch)
            return {"out": out, "nodes": (self.more(x), "a text")}

    one, other = twins(Two())

    def loss(net, output, batch):
        decay = sum(weight.square().sum() for weight in net.parameters())
        nodes = output["nodes"][0]
        assert nodes.size(0) == batch.num_nodes
        return mae(output["out"], batch) + nodes.mean() + 0.01 * decay

    losses = []
    for net, pad in ((one, padded), (other, False)):
        optimizer = torch.optim.SGD(net.parameters(), 0.01)
        step = TrainingStep(net, lambda o, b, net=net: loss(net, o, b), optimizer)
        loader = GraphLoader(molecules(15), 3, pad=pad)
        losses.append([float(step(batch)) for batch in loader])
        assert step.reason is None
    assert losses[0] == pytest.approx(losses[1], rel=1e-7)


def test_training_step_notices_frozen_weights(padded):
    one, other = twins(Gine())
    losses = []
    for net, pad in ((one, padded), (other, False)):
        step = TrainingStep(net, mae, torch.optim.SGD(net.parameters(), 0.1))
        loader = GraphLoader(molecules(30), 3, pad=pad)
        found = [float(step(batch)) for batch in loader]
        net.start.requires_grad_(False)
        before = net.start.weight.clone()
        found += [float(step(batch)) for batch in loader]
        assert torch.equal(net.start.weight, before)
        losses.append(found)
    assert losses[0] == pytest.approx(losses[1], rel=1e-7)


class Unpaddable(nn.Module):
    """Normalises over all nodes of the batch, without knowing the graphs."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv = PairNorm(), GIN(4, 8, 1)
        self.head = nn.Linear(8, 1)

    def forward(self, x, edge_index, batch):
        h = self.norm(self.conv(x, edge_index))
        return self.head(global_mean_pool(h, batch)).flatten()


def test_training_step_names_a_module_whose_output_padding_changes(caplog):
    one, other = twins(Unpaddable())
    graphs = molecules(9)

    def call(model, batch):
        return model(batch.x, batch.edge_index, batch.batch)

    found, step = by_step(one, GraphLoader(graphs, 3, pad=True))
    assert found == by_hand(other, DataLoader(graphs, 3), call)
    assert "padding changes the output of PairNorm (pair_norm.py, line" in step.reason
    assert len(caplog.records) == 1
    assert step.reason in caplog.text
    assert "not captured: padding changes" in repr(step)


def test_training_step_names_a_batch_norm_of_other_rows():
    class Heads(Gine):
        def forward(self, x, edge_index, edge_attr, batch):
            h = self.start(x).view(-1, 8).repeat(2, 1)
            return global_mean_pool(self.norm(h)[: x.size(0)], batch).sum(1)

    _, step = by_step(Heads().double(), GraphLoader(molecules(6), 3, pad=True))
    assert "BatchNorm" in step.reason


def test_training_step_gives_up_when_a_capture_fails(record_with, caplog):
    from tests.fast.recorders import CallRecorder

    class Refuses(CallRecorder):
        def record(self, work):
            raise RuntimeError("a step synchronises with the device in net.py, line 7.")

    record_with(Refuses())
    one, other = twins(Gine())
    graphs = molecules(24)
    found, step = by_step(one, GraphLoader(graphs, 3, pad=True))
    assert found == pytest.approx(by_hand(other, DataLoader(graphs, 3), named), 1e-7)
    assert "net.py, line 7" in caplog.text
    ((captured, _),) = step._captured.values()
    assert captured.gave_up
    assert "net.py, line 7" in step.reason


class Lazy(nn.Module):
    """A model around a conv that declares no input width."""

    def __init__(self):
        super().__init__()
        self.gnn, self.head = LGConv(), nn.Linear(4, 1)

    def forward(self, x, edge_index, batch):
        return self.head(global_mean_pool(self.gnn(x, edge_index), batch)).flatten()


def test_weights_that_the_first_call_builds_are_captured_and_told(padded, caplog):
    model = uplift(Lazy().double(), num_hops=1)
    loader = GraphLoader(molecules(24), 3, pad=True, subgraphs=EgoNets(1))
    with pytest.warns(UserWarning, match="an optimizer that was built before"):
        _, step = by_step(model, loader)
    assert "in its first call, which the optimizer does not train" in caplog.text
    if padded:
        ((captured, _),) = step._captured.values()
        assert {*captured.weights} == {*model.parameters()}


@pytest.mark.parametrize(("count", "built"), [(1, "1 weight"), (2, "2 weights")])
def test_weights_that_the_first_call_builds_are_counted(count, built, caplog):
    class Builds(Lazy):
        """Builds weights in its first call."""

        def forward(self, x, edge_index, batch):
            if not hasattr(self, "gates"):
                gates = [nn.Parameter(torch.ones(1)) for _ in range(count)]
                self.gates = nn.ParameterList(gates)
            return super().forward(x, edge_index, batch) * self.gates[0]

    by_step(Builds().double(), GraphLoader(molecules(12), 3, pad=True))
    assert f"the model built {built} in its first call" in caplog.text


def test_training_step_is_not_captured_on_a_cpu():
    fast = pytest.importorskip("gnnak.fast")
    with use_backend(fast.make_backend()):
        _, step = by_step(Gine().double(), GraphLoader(molecules(6), 3, pad=True))
    ((captured, _),) = step._captured.values()
    assert isinstance(captured, training_step_module.CapturedModel)


def test_training_step_runs_in_bf16_autocast(padded):
    graphs = molecules(9)
    for graph in graphs:
        graph.x, graph.edge_attr = graph.x.float(), graph.edge_attr.float()
        graph.y = graph.y.float()
    model = Gine().train()
    step = TrainingStep(
        model, mae, torch.optim.Adam(model.parameters()), autocast=torch.bfloat16
    )
    losses = [float(step(batch)) for batch in GraphLoader(graphs, 3, pad=padded)]
    assert step.reason is None
    assert all(0 < value < 10 for value in losses)


def test_training_step_runs_the_models_of_pyg_by_name(padded):
    for model in (GIN(4, 8, 2, 1, norm="BatchNorm"), GCN(4, 8, 2, 1)):
        model = model.double().train()
        step = TrainingStep(
            model,
            lambda out, batch: out[:, 0].square().mean(),
            torch.optim.SGD(model.parameters(), 0.1),
        )
        for batch in GraphLoader(molecules(6), 3, pad=padded):
            assert step(batch).isfinite()
        assert step.reason is None


@pytest.mark.parametrize(
    ("loss", "wanted"),
    [
        (lambda out, batch: out, r"loss returned a tensor of shape \[3\]"),
        (lambda out, batch: 1.0, "loss returned a float"),
        (lambda out, batch: out.detach().sum(), "without gradient"),
    ],
)
def test_training_step_names_a_wrong_loss(loss, wanted):
    model = Gine().double()
    step = TrainingStep(model, loss, torch.optim.SGD(model.parameters(), 0.1))
    with pytest.raises(OptionError, match=wanted):
        step(next(iter(GraphLoader(molecules(3), 3))))


def test_training_step_names_a_missing_field():
    model = Gine()
    step = TrainingStep(model, mae, torch.optim.SGD(model.parameters(), 0.1))
    graphs = [Data(x=torch.rand(2, 4), edge_index=torch.zeros(2, 0).long())]
    with pytest.raises(OptionError, match=r"Gine.forward needs 'edge_attr', but"):
        step(next(iter(GraphLoader(graphs))))


def test_training_step_names_a_batch_that_is_too_large():
    model = Gine()

    def call(model, batch):
        raise torch.OutOfMemoryError("CUDA out of memory")

    step = TrainingStep(model, mae, torch.optim.SGD(model.parameters(), 0.1), call=call)
    for count, wanted in ((3, "3 graphs"), (1, "1 graph")):
        with pytest.raises(SizeError, match=f"a batch of {wanted} does not fit"):
            step(next(iter(GraphLoader(molecules(count), count))))


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"model": nn.ReLU()}, "ReLU has no weights"),
        ({"model": Gine}, "the model Gine is a class"),
        ({"loss": 3}, "loss is 3"),
        ({"loss": torch.optim.SGD(Gine().parameters())}, "loss is a SGD; give a"),
        ({"optimizer": None}, "optimizer is None"),
        ({"clip": -1.0}, "clip is -1.0"),
        ({"clip": "1"}, "clip is '1'; give a number"),
        ({"clip": True}, "clip is True; give a number"),
        ({"autocast": "bf16"}, "autocast is 'bf16'; give torch.bfloat16"),
        ({"autocast": torch.int32}, "autocast is torch.int32; give torch.bfloat16"),
        ({"optimizer": torch.optim.SGD(Gine().parameters())}, "SGD trains no weight"),
    ],
)
def test_training_step_names_a_wrong_option(change, wanted):
    model = Gine()
    options = {"model": model, "loss": mae}
    options["optimizer"] = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(OptionError, match=wanted):
        TrainingStep(**(options | change))


def test_training_step_returns_a_loss_of_shape_1_without_dimensions(padded):
    model = Gine().double()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = TrainingStep(model, lambda out, batch: mae(out, batch)[None], optimizer)
    value = step(next(iter(GraphLoader(molecules(3), 3, pad=padded))))
    assert value.shape == ()
    assert not value.requires_grad


def test_training_step_may_train_the_weights_of_the_loss_alone():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones((), dtype=torch.double))

        def forward(self, out, batch):
            return mae(self.scale * out, batch)

    loss = Scaled()
    optimizer = torch.optim.SGD(loss.parameters(), 0.1)
    step = TrainingStep(Gine().double().requires_grad_(False), loss, optimizer)
    step(next(iter(GraphLoader(molecules(3), 3))))
    assert loss.scale.item() != 1.0
