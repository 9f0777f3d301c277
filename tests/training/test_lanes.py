"""Lanes and the Adam that uses them: side by side, the same as one after the other."""

import threading

import pytest
import torch
from torch import nn
from torch.optim import Adam

from gnnak.training.lanes import Lanes
from gnnak.training.optimizer import TOGETHER, LanedAdam, make_ready
from gnnak.training.step import backward
from tests.gpu import needs_gpu

COUNT = 2 * TOGETHER + 3


def some_weights(device="cpu"):
    """Weights of several sizes, more than one lane takes."""
    draw = torch.Generator().manual_seed(0)
    sizes = [(1 + number % 7, 3) for number in range(COUNT)]
    return [nn.Parameter(torch.randn(s, generator=draw).to(device)) for s in sizes]


def loss_of(weights):
    return sum((weight.square() * (1 + place)).sum() for place, weight in weights)


def step(optimizer):
    """One step on the weights of an optimizer."""
    weights = [w for group in optimizer.param_groups for w in group["params"]]
    optimizer.zero_grad()
    backward(loss_of(enumerate(weights)))
    optimizer.step()


def groups_of(weights):
    """Two groups with options of their own."""
    return [{"params": weights[:40], "lr": 0.1}, {"params": weights[40:]}]


def test_lanes_on_a_cpu_are_one():
    with Lanes(torch.device("cpu")) as lanes:
        assert not lanes.parted
        with lanes.beside():
            made = torch.ones(3) * 2
    assert made.tolist() == [2, 2, 2]


def test_laned_adam_is_adam_where_nothing_is_captured():
    ours = LanedAdam(groups_of(some_weights()), lr=0.01, weight_decay=0.1)
    theirs = Adam(groups_of(some_weights()), lr=0.01, weight_decay=0.1)
    for optimizer in (ours, theirs):
        for _ in range(3):
            step(optimizer)
    assert str(ours.state_dict()) == str(theirs.state_dict())
    assert str(ours.param_groups) == str(theirs.param_groups)


def test_laned_adam_calls_a_closure():
    weights = some_weights()
    optimizer = LanedAdam(weights, lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(enumerate(weights))
        loss.backward()
        return loss

    assert optimizer.step(closure) > 0


@needs_gpu
def test_laned_adam_in_a_captured_step_is_adam():
    ours = LanedAdam(groups_of(some_weights("cuda")), lr=0.01, weight_decay=0.1)
    theirs = Adam(groups_of(some_weights("cuda")), lr=0.01, weight_decay=0.1)
    for optimizer in (ours, theirs):
        make_ready(optimizer, torch.device("cuda"), captured=True)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            step(optimizer)
        torch.cuda.current_stream().wait_stream(aside)
    graph, before = torch.cuda.CUDAGraph(), ours.param_groups
    ours.zero_grad()
    with torch.cuda.graph(graph):
        step(ours)
    assert ours.param_groups is before
    for _ in range(3):
        graph.replay()
        step(theirs)
    pairs = zip(ours.state.values(), theirs.state.values(), strict=True)
    for mine, other in pairs:
        for name, value in mine.items():
            torch.testing.assert_close(value, other[name])
    for mine, other in zip(ours.param_groups, theirs.param_groups, strict=True):
        for one, two in zip(mine["params"], other["params"], strict=True):
            torch.testing.assert_close(one, two)


@needs_gpu
def test_backward_pass_on_a_gpu_is_in_the_thread_that_asks_for_it():
    weight, seen = nn.Parameter(torch.ones(2, device="cuda")), []
    twice = weight * 2
    twice.register_hook(lambda _: seen.append(threading.get_ident()))
    backward(twice.sum())
    assert seen == [threading.get_ident()]


def test_lanes_part_where_work_is_captured(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert Lanes(torch.device("cuda", 0)).parted
    assert not Lanes(torch.device("cpu")).parted


@pytest.mark.parametrize("captured", [True, False])
def test_laned_adam_parts_weights_only_in_a_capture(monkeypatch, captured):
    sizes = []
    monkeypatch.setattr(Lanes, "__init__", fake_lanes(captured))
    monkeypatch.setattr(Adam, "step", lambda self, _=None: sizes.append(count(self)))
    optimizer = LanedAdam(groups_of(some_weights()))
    whole = optimizer.param_groups
    optimizer.step()
    assert optimizer.param_groups is whole
    rest = COUNT - 40
    assert sizes == ([32, 8, rest] if captured else [COUNT])


def fake_lanes(parted):
    """Lanes that part, or not, without a GPU; they have no streams."""

    def init(self, device):
        self.device, self.parted, self._streams = device, parted, []
        if parted:
            self.beside = torch.no_grad

    return init


def count(optimizer):
    return sum(len(group["params"]) for group in optimizer.param_groups)
