"""Side streams, and Adam's step on them: the same as on one stream."""

import threading
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.optim import Adam

from gnnak.fast.step.update import WEIGHTS_PER_STREAM, SideStreams, step_on_streams
from gnnak.loop.step import backward, make_ready
from tests.gpu import needs_gpu

COUNT = 2 * WEIGHTS_PER_STREAM + 3


def some_weights(device="cpu"):
    """Weights of several sizes, more than one stream updates."""
    draw = torch.Generator().manual_seed(0)
    sizes = [(1 + number % 7, 3) for number in range(COUNT)]
    return [nn.Parameter(torch.randn(s, generator=draw).to(device)) for s in sizes]


def loss_of(weights):
    return sum((weight.square() * (1 + place)).sum() for place, weight in weights)


def step(optimizer, device="cpu"):
    """One step on the weights of an optimizer."""
    weights = [w for group in optimizer.param_groups for w in group["params"]]
    optimizer.zero_grad()
    backward(loss_of(enumerate(weights)))
    step_on_streams(optimizer, torch.device(device))


def groups_of(weights):
    """Two groups with options of their own."""
    return [{"params": weights[:40], "lr": 0.1}, {"params": weights[40:]}]


def test_side_streams_on_a_cpu_are_one_stream():
    with SideStreams(torch.device("cpu")) as lanes:
        assert not lanes.active
        with lanes.side_stream():
            made = torch.ones(3) * 2
    assert made.tolist() == [2, 2, 2]


@needs_gpu
def test_adam_on_streams_is_adam():
    ours, theirs = (
        Adam(groups_of(some_weights("cuda")), lr=0.01, weight_decay=0.1)
        for _ in range(2)
    )
    for optimizer in (ours, theirs):
        make_ready(optimizer, torch.device("cuda"), captured=True)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            step(optimizer, "cuda")
        torch.cuda.current_stream().wait_stream(aside)
    graph, before = torch.cuda.CUDAGraph(), ours.param_groups
    ours.zero_grad()
    with torch.cuda.graph(graph):
        step(ours, "cuda")
    assert ours.param_groups is before
    for _ in range(3):
        graph.replay()
        step(theirs, "cuda")
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


def test_side_streams_are_active_where_work_is_captured(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert SideStreams(torch.device("cuda", 0)).active
    assert not SideStreams(torch.device("cpu")).active


@pytest.mark.parametrize("active", [True, False])
def test_adam_on_streams_updates_all_weights_once(monkeypatch, active):
    monkeypatch.setattr(SideStreams, "__init__", streams_that(active))
    ours, theirs = (
        Adam([{"params": []}, *groups_of(some_weights())], lr=0.01, weight_decay=0.1)
        for _ in range(2)
    )
    whole, sizes = ours.param_groups, []
    ours.register_step_pre_hook(lambda one, *_: sizes.append(size_of(one)))
    for _ in range(3):
        step(ours)
        backward(
            loss_of(enumerate(w for g in theirs.param_groups for w in g["params"]))
        )
        theirs.step()
        theirs.zero_grad()
    assert ours.param_groups is whole
    assert sizes == [32, 8, COUNT - 40] * 3
    assert str(ours.state_dict()) == str(theirs.state_dict())
    assert str(ours.param_groups) == str(theirs.param_groups)


def test_adam_on_streams_keeps_its_groups_if_a_step_fails(monkeypatch):
    monkeypatch.setattr(SideStreams, "__init__", streams_that(active=True))
    optimizer = Adam(groups_of(some_weights()))
    whole = optimizer.param_groups
    monkeypatch.setattr(optimizer, "step", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        step_on_streams(optimizer, torch.device("cpu"))
    assert optimizer.param_groups is whole


def streams_that(active):
    """An `__init__` of side streams that are active or not, without a GPU."""

    def init(self, device):
        self.device, self.active, self._streams = device, active, []
        if active:
            self.side_stream = nullcontext

    return init


def size_of(optimizer):
    """How many weights it would move."""
    return sum(len(group["params"]) for group in optimizer.param_groups)
