"""Buffers of models: padding and the comparison with padding must not change them."""

import re

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, InstanceNorm, global_mean_pool

from gnnak import GraphLoader, TrainingStep
from gnnak.loop.verification import SavedBuffers
from tests.loop.models import (
    assert_same_weights,
    by_hand,
    by_step,
    in_float32,
    molecules,
    sgd_step,
    stepped,
    twins,
)


class Net(nn.Module):
    """A conv, a module that changes buffers, and a mean over each graph."""

    def __init__(self, inside: nn.Module, takes_batch: bool = False):
        super().__init__()
        self.conv, self.inside = GINConv(nn.Linear(4, 8)), inside
        self.head, self.takes_batch = nn.Linear(8, 1), takes_batch

    def forward(self, x, edge_index, batch):
        h = self.conv(x, edge_index)
        h = self.inside(h, batch) if self.takes_batch else self.inside(h)
        return self.head(global_mean_pool(h, batch)).flatten()


class MovingAverage(nn.Module):
    """Computes a moving average of its inputs' mean, with padding rows or without."""

    def __init__(self, persistent: bool = True):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8), persistent=persistent)

    def forward(self, h):
        with torch.no_grad():
            self.mean.lerp_(h.mean(0), 0.1)
        return h


class Counter(nn.Module):
    """Scales its input by a number that depends on the number of calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, h):
        self.calls += 1
        return h * (1 + 0.1 * self.calls)


class Replacing(Counter):
    def forward(self, h):
        self.calls = self.calls + 1
        return h * (1 + 0.1 * self.calls)


class ReplacingData(Counter):
    def forward(self, h):
        self.calls.data = self.calls + 1
        return h * (1 + 0.1 * self.calls)


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.eye(8).to_sparse())

    def forward(self, h):
        return torch.sparse.mm(self.scale, h.t()).t()


def running_norm() -> nn.Module:
    return Net(InstanceNorm(8, track_running_stats=True), takes_batch=True)


CAPTURED = {
    "batch_norm": lambda: Net(nn.BatchNorm1d(8)),
    "average_batch_norm": lambda: Net(nn.BatchNorm1d(8, momentum=None)),
    "spectral_norm": lambda: Net(spectral_norm(nn.Linear(8, 8))),
    "counter": lambda: Net(Counter()),
    "sparse": lambda: Net(Sparse()),
}
NOT_CAPTURED = {
    "running_norm": (running_norm, "InstanceNorm .* replaces its buffer 'running_mean"),
    "average": (lambda: Net(MovingAverage()), "the buffer 'mean' of MovingAverage"),
    "not_saved": (lambda: Net(MovingAverage(False)), "'mean' of MovingAverage"),
    "replacing": (lambda: Net(Replacing()), r"Replacing \(test_buffers.py, line \d+\)"),
    "replacing_data": (lambda: Net(ReplacingData()), "replaces its buffer 'calls'"),
}


pytestmark = pytest.mark.usefixtures("calls")


def assert_equal_training(one: nn.Module, other: nn.Module) -> TrainingStep:
    graphs = molecules(24)
    found, step = by_step(one, GraphLoader(graphs, 3, pad=True))
    call = lambda m, b: m(b.x, b.edge_index, b.batch)  # noqa: E731
    assert found == pytest.approx(by_hand(other, DataLoader(graphs, 3), call), rel=1e-7)
    assert_same_weights(one, other, 1e-6)
    for mine, theirs in zip(one.buffers(), other.buffers(), strict=True):
        if mine.layout == torch.strided:
            torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)
    return step


@pytest.mark.parametrize("name", CAPTURED)
def test_buffers_that_ignore_padding_are_captured(name):
    step = assert_equal_training(*twins(CAPTURED[name]()))
    assert step.reason is None
    assert step._captured


@pytest.mark.parametrize("name", NOT_CAPTURED)
def test_buffers_that_padding_changes_are_named(name, caplog):
    make, reason = NOT_CAPTURED[name]
    step = assert_equal_training(*twins(make()))
    assert not step._captured
    assert re.search(reason, step.reason)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("count", [8, 128])
def test_moving_averages_of_large_batches_in_float32_are_compared(count):
    model = Net(MovingAverage())
    graphs = molecules(2 * count)
    step = stepped(model, GraphLoader(in_float32(graphs), count, pad=True))
    assert "padding changes the buffer 'mean' of MovingAverage" in step.reason


def test_lazy_buffers_are_captured_from_the_second_step():
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(Net(nn.LazyBatchNorm1d(dtype=torch.double)).double().train())
    step = assert_equal_training(*models)
    assert step.reason is None
    assert step._captured


def test_saved_buffers_restore_values_and_addresses():
    model = nn.ModuleList([nn.BatchNorm1d(2), Replacing(), ReplacingData()])
    model.register_buffer("nothing", None)
    buffers = dict(model.named_buffers())
    before = {name: (each.data_ptr(), each.clone()) for name, each in buffers.items()}
    saved = SavedBuffers(model)

    def call():
        model.nothing = torch.zeros(1)
        return [part(torch.rand(3, 2)) for part in model]

    assert saved.replaced() is None
    saved.call(call)
    assert saved.replaced() == (model, "nothing")
    saved.restore()
    assert saved.replaced() is None
    assert model.nothing is None
    after = dict(model.named_buffers())
    assert after.keys() == buffers.keys()
    for name, (address, values) in before.items():
        assert after[name] is buffers[name]
        assert after[name].data_ptr() == address
        assert torch.equal(after[name], values)


def test_a_model_that_fails_leaves_its_buffers_alone():
    model = Net(Counter()).double()

    def call(model, batch):
        model(batch.x, batch.edge_index, batch.batch)
        raise ValueError("no output")

    step = sgd_step(model, call=call)
    with pytest.raises(ValueError, match="no output"):
        step(next(iter(GraphLoader(molecules(3), 3, pad=True))))
    assert float(model.inside.calls) == 1.0  # by the step, not by the comparison


@pytest.mark.parametrize("dtype", [torch.double, torch.float, torch.bfloat16])
def test_buffers_are_compared_relative_to_their_change(dtype):
    norm = nn.BatchNorm1d(2, dtype=dtype)
    norm.running_mean.fill_(100.0)
    norm.register_buffer("least", torch.tensor(float("inf"), dtype=dtype))
    saved = SavedBuffers(norm)
    rows = torch.full((4, 2), 300.0, dtype=dtype)

    def run(mean: float, least: float = 1.0):
        def change():
            norm.running_mean.lerp_(rows.mean(0) * mean, 0.1)
            norm.least.fill_(least)

        return saved.call(change)[1]

    off = 1.2 if dtype == torch.bfloat16 else 1.01
    one = run(1.0)
    assert saved.first_difference(one, run(1.0), False) is None
    assert saved.first_difference(one, run(off), False) == (norm, "running_mean")
    assert saved.first_difference(one, run(1.0, 2.0), True) == (norm, "least")
    saved.restore()
    assert norm.least.item() == float("inf")
    assert norm.running_mean.tolist() == [100.0, 100.0]


def test_complex_buffers_are_compared_up_to_rounding():
    model = nn.Identity()
    model.register_buffer("wave", torch.ones(3, dtype=torch.cdouble))
    saved = SavedBuffers(model)
    one, same, other = (
        saved.call(lambda off=off: model.wave.mul_(2j + off))[1]
        for off in (0.0, 1e-12, 1e-3)
    )
    assert saved.first_difference(one, same, False) is None
    assert saved.first_difference(one, other, False) == (model, "wave")
