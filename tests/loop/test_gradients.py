"""Padding must not change gradients, even if it does not change outputs."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphConv, global_mean_pool

from gnnak import GraphLoader, TrainingStep
from tests.loop.models import (
    assert_same_weights,
    by_hand,
    by_step,
    in_float32,
    mae,
    molecules,
    sgd_step,
    stepped,
    twins,
)


class Net(nn.Module):
    """A conv, a change of its states, and a mean over each graph."""

    def __init__(self, change=None) -> None:
        super().__init__()
        self.start, self.conv = nn.Linear(4, 8), GraphConv(8, 8)
        self.head = nn.Linear(8, 1)
        self.change = change or self.change

    def forward(self, x, edge_index, batch):
        h = self.conv(self.start(x), edge_index).relu()
        return self.head(global_mean_pool(self.change(h, x), batch)).flatten()

    def change(self, h, x):
        return h


def divides(h, x):
    return h / x[:, :1]  # zero in padding rows


def straight_through(h, x):
    mean = h.mean(dim=0)
    return h + (mean - mean.detach())


def nearest(h, x):  # padding nodes are at the origin
    return h + h[torch.cdist(x, x).fill_diagonal_(float("inf")).argmin(dim=1)]


def hook(change):
    """Return a function that changes gradients only."""

    def changed(h, x):
        if h.requires_grad:
            h.register_hook(lambda gradient: change(gradient, x))
        return h

    return changed


def centres(gradient, _x):
    return gradient - gradient.mean(0)


class UnitLength(Net):
    def __init__(self) -> None:
        super().__init__()
        nn.init.zeros_(self.start.bias)

    def forward(self, x, edge_index, batch):
        h = self.start(x)
        h = h / h.square().sum(dim=1, keepdim=True).sqrt()
        return self.head(global_mean_pool(h, batch)).flatten()


class Frequency(Net):
    """Scales the gradients of embeddings by the frequency of their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(2, 8, scale_grad_by_freq=True)

    def change(self, h, x):
        return h + self.table((x[:, 0] > 0.5).long())


REFUSED = {
    "divides by a feature": (
        lambda: Net(divides),
        "infinite or NaN; features are zero in padding rows, so add a small",
    ),
    "logarithm": (
        lambda: Net(lambda h, x: h * x[:, :1].log()),
        "padding makes the gradient of start.weight infinite or NaN",
    ),
    "unit length": (UnitLength, "padding makes the gradient of start.weight infinite"),
    "straight through": (lambda: Net(straight_through), "gradient of start.weight"),
    "hook": (
        lambda: Net(hook(lambda gradient, _: gradient / gradient.size(0))),
        "padding changes the gradient of start.weight",
    ),
    "frequency": (Frequency, "padding changes the gradient of table.weight"),
    "nearest": (lambda: Net(nearest), "padding changes the output of Linear"),
}


def call(model, batch):
    return model(batch.x, batch.edge_index, batch.batch)


@pytest.mark.parametrize("name", REFUSED)
def test_models_whose_gradients_padding_changes_train_as_by_hand(name):
    build, reason = REFUSED[name]
    one, other = twins(build())
    graphs = molecules(40, most=20)
    found, step = by_step(one, GraphLoader(graphs, 10, pad=True))
    assert reason in step.reason
    assert found == by_hand(other, DataLoader(graphs, 10), call)
    assert_same_weights(one, other, 0.0)


@pytest.mark.parametrize("dtype", [torch.double, torch.float])
@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
def test_gradients_that_are_nan_are_found_for_all_dtypes(dtype, autocast):
    graphs = [Data(g.x.to(dtype), g.edge_index, y=g.y.to(dtype)) for g in molecules(12)]
    for change in (None, divides):
        step = sgd_step(Net(change).to(dtype), autocast=autocast)
        for batch in GraphLoader(graphs, 4, pad=True):
            assert step(batch).isfinite()
        assert (step.reason is None) == (change is None)


def test_wrong_gradients_are_found_in_float32():
    graphs = in_float32(molecules(40, most=20))
    for change in (None, straight_through):
        torch.manual_seed(0)
        _, step = by_step(Net(change), GraphLoader(graphs, 10, pad=True))
        assert (step.reason is None) == (change is None)


def test_errors_of_backward_passes_with_padding_are_named():
    def check(_gradient, x):
        if not x.any(dim=1).all():
            raise ValueError("a row of zeros")

    net = Net(hook(check)).double()
    _, step = by_step(net, GraphLoader(molecules(12), 4, pad=True))
    wanted = "a call with padding and gradients raised ValueError: a row of zeros"
    assert step.reason == wanted


def test_sparse_gradients_are_compared():
    model = Frequency()
    model.table = nn.Embedding(2, 8, sparse=True)
    step = stepped(model.double(), GraphLoader(molecules(12), 4, pad=True))
    assert step.reason is None


def test_gradients_that_are_nan_without_padding_are_not_compared():
    net = Net(lambda h, x: h / (x[:, :1] * 0)).double()
    _, step = by_step(net, GraphLoader(molecules(12), 4, pad=True))
    assert step.reason is None


def test_comparing_leaves_gradients_as_they_are():
    model = Net().double()
    model.head.weight.grad = before = torch.ones_like(model.head.weight)
    seen = []

    def loss(output, batch):
        seen.extend(weight.grad for weight in model.parameters())
        return mae(output, batch)

    optimizer = torch.optim.SGD(model.head.parameters(), 0.1)
    optimizer.zero_grad = lambda **_: None
    step = TrainingStep(model, loss, optimizer)
    step(next(iter(GraphLoader(molecules(12), 4, pad=True))))
    assert step.reason is None
    assert [each for each in seen if each is not None] == [before]


class Recomputes(Net):
    """Recomputes a block with a BatchNorm in the backward pass, by its old form."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())

    def change(self, h, x):
        return checkpoint(self.block, h, use_reentrant=True)


class Averages(Net):
    """Keeps a moving average that depends on weights, as a buffer with a history."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.zeros(8))

    def change(self, h, x):
        self.average.mul_(0.9).add_(0.1 * self.start.weight.mean(1))
        return h + self.average


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("build", [lambda: Net(hook(centres)), Recomputes])
def test_gradients_that_depend_on_all_rows_are_not_captured(build):
    one, other = twins(build().double())
    batch = next(iter(GraphLoader(molecules(16), 16, pad=True)))
    assert stepped(one, [batch]).reason is not None
    mae(call(other, batch), batch).backward()
    torch.optim.SGD(other.parameters(), 0.1).step()
    assert_same_weights(one, other, 1e-9)


def test_means_of_gradients_over_all_rows_are_found_in_float32():
    torch.manual_seed(0)
    loader = GraphLoader(in_float32(molecules(512)), 512, pad=True)
    step = stepped(Net(hook(centres)), loader)
    assert step.reason.startswith("padding changes the gradient of")


def test_the_comparison_leaves_no_history_on_buffers():
    model = Averages().double()
    step = sgd_step(model)
    for batch in GraphLoader(molecules(32), 16, pad=True):
        step(batch)
        model.average.detach_()
    assert step.reason is None
