"""Captured updates of the weights (calls stand in for captures), and side streams."""

import gc
import threading
import weakref
from contextlib import nullcontext
from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.optim import Adam

from gnnak.fast.step.update import (
    WEIGHTS_PER_STREAM,
    CapturedUpdate,
    step_on_streams,
)
from gnnak.loop.step import backward, make_ready
from tests.fast.recorders import CallRecorder, make_recorder
from tests.gpu import needs_gpu

OPTIMIZERS = {
    "Adam": torch.optim.Adam,
    "AdamW": torch.optim.AdamW,
    "SGD": torch.optim.SGD,
    "SGD with momentum": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9),
    "RMSprop": torch.optim.RMSprop,
}


def weight():
    return nn.Parameter(torch.tensor([1.0, -2.0]))


class Loop:
    """Trains one weight, with steps that are captured when they can be."""

    def __init__(self, build=torch.optim.Adam):
        self.weight = weight()
        self.optimizer = build([self.weight], lr=0.1)
        self.taken, self.replayed = 0, 0
        device = torch.device("cpu")
        self.update = CapturedUpdate(self.take, self.optimizer, CallRecorder(), device)
        self.replay = None

    def take(self):
        self.taken += 1
        self.optimizer.step()

    def step(self, times=1):
        for _ in range(times):
            self.weight.grad = self.weight.detach().square()
            if not self.update.can_replay(self.replay):
                self.replay = self.update.record()
            if not self.update.can_replay(self.replay):
                self.update.run()
            else:
                self.replayed += 1
                self.replay()

    def step_with_rates(self, rates):
        for rate in rates:
            self.optimizer.param_groups[0]["lr"] = rate
            self.step()


@pytest.fixture
def loop():
    made = Loop()
    made.step()
    return made


def by_hand(build, rates):
    found = weight()
    optimizer = build([found], lr=0.1)
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        found.grad = found.detach().square()
        optimizer.step()
    return found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_equal_those_of_the_optimizer(name):
    loop, rates = Loop(OPTIMIZERS[name]), [0.1, 0.1, 0.05, 0.025]
    loop.step_with_rates(rates)
    assert torch.equal(loop.weight, by_hand(OPTIMIZERS[name], rates))
    assert loop.replayed >= 3
    assert loop.optimizer.param_groups[0]["lr"] == 0.025


def test_learning_rates_are_copied_to_the_tensors_that_a_graph_reads():
    loop = Loop()
    loop.step_with_rates([0.1, 0.1, 0.05])
    assert loop.update.rates[0].item() == pytest.approx(0.05)


def test_a_step_is_captured_once_the_optimizer_has_its_state(loop):
    assert not loop.replayed
    loop.step()
    assert loop.replayed


def test_a_loaded_state_is_captured_anew(loop):
    loop.step(2)
    before = loop.replay
    loop.optimizer.load_state_dict(deepcopy(loop.optimizer.state_dict()))
    loop.step()
    assert loop.replay is not before
    assert loop.replayed == 3
    assert torch.equal(loop.weight, by_hand(torch.optim.Adam, [0.1] * 4))


def test_no_update_captured_with_an_old_state_is_replayed(loop):
    small, large = loop.update.record(), loop.update.record()
    loop.optimizer.load_state_dict(deepcopy(loop.optimizer.state_dict()))
    again = loop.update.record()
    assert loop.update.can_replay(again)
    assert not loop.update.can_replay(small)
    assert not loop.update.can_replay(large)


def other_moments(optimizer):
    for state in optimizer.state.values():
        state["exp_avg"] = torch.zeros_like(state["exp_avg"])


CHANGES = {
    "weights": lambda adam: adam.param_groups[0]["params"].append(weight()),
    "groups": lambda adam: adam.add_param_group({"params": [weight()]}),
    "moments": other_moments,
    "state": lambda adam: adam.state.clear(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_no_update_is_replayed_after_a_change_of(loop, name):
    captured = loop.update.record()
    assert loop.update.can_replay(captured)
    CHANGES[name](loop.optimizer)
    assert not loop.update.can_replay(captured)
    loop.step()


def test_the_memory_of_captured_states_stays_allocated(loop):
    loop.update.record()
    state = weakref.ref(loop.optimizer.state[loop.weight]["exp_avg"])
    loop.optimizer.state.clear()
    gc.collect()
    assert state() is not None


def test_released_updates_are_not_replayed(loop):
    captured = loop.update.record()
    loop.update.forget()
    assert not loop.update.can_replay(captured)


def test_hooks_added_later_end_the_capture(loop):
    called = []
    loop.step()
    loop.optimizer.register_step_post_hook(lambda *_: called.append(1))
    loop.step()
    assert called == [1]
    assert "hooks" in loop.update.reason


def test_a_scheduler_built_later_does_not_end_the_capture(loop):
    loop.step()
    scheduler = torch.optim.lr_scheduler.ExponentialLR(loop.optimizer, 0.5)
    for _ in range(2):
        loop.step()
        scheduler.step()
    assert loop.update.reason is None
    assert loop.update.rates[0].item() == pytest.approx(0.05)


def test_all_scalar_states_are_moved_to_the_device_of_the_weights():
    loop = Loop(torch.optim.NAdam)
    loop.step()
    loop.update.device = torch.device("meta")
    loop.update.record()
    state = loop.optimizer.state[loop.weight]
    assert {state[name].device.type for name in ("step", "mu_product")} == {"meta"}


def test_options_that_change_end_the_capture():
    loop = Loop()
    for beta in (0.9, 0.9, 0.8, 0.7):
        loop.optimizer.param_groups[0]["betas"] = (beta, 0.99)
        loop.step()
    assert "options of the optimiser change" in loop.update.reason
    assert loop.taken == 4


class Own(torch.optim.Optimizer):
    """An optimiser of a user."""

    def __init__(self, weights, lr):
        super().__init__(weights, {"lr": lr})

    def step(self):
        for each in self.param_groups[0]["params"]:
            each.data.sub_(each.grad, alpha=self.param_groups[0]["lr"])


def test_an_unknown_optimizer_is_called_as_it_is():
    loop = Loop(Own)
    loop.step(3)
    assert loop.replayed == 0
    assert "Own" in loop.update.reason
    assert torch.equal(loop.weight, by_hand(Own, [0.1] * 3))


def test_an_optimizer_with_hooks_is_called_as_it_is():
    optimizer = torch.optim.Adam([weight()])
    optimizer.register_step_post_hook(lambda *_: None)
    given = optimizer.step, optimizer, CallRecorder()
    update = CapturedUpdate(*given, torch.device("cpu"))
    assert "hooks" in update.reason


def test_updates_by_sgd_with_an_implementation_that_reads_the_rate_are_not_captured():
    for options in ({"foreach": True}, {"foreach": False}, {"fused": False}):
        loop = Loop(lambda p, lr, options=options: torch.optim.SGD(p, lr, **options))
        assert "SGD reads the learning rate on the host" in loop.update.reason
    fused = Loop(lambda p, lr: torch.optim.SGD(p, lr, fused=True))
    assert fused.update.reason is None


def test_updates_from_sparse_gradients_are_not_captured():
    loop = Loop(torch.optim.SGD)
    loop.weight.grad = torch.ones(2).to_sparse()
    assert loop.update.record() is None
    assert loop.update.reason == "gradients are sparse"


def test_gradients_may_become_sparse_after_an_update_was_captured():
    loop = Loop(torch.optim.SGD)
    loop.step(3)
    assert loop.replayed
    loop.update.device = torch.device("cuda")  # where SGD runs with fused=True
    before = loop.weight.detach().clone()
    loop.weight.grad = torch.ones(2).to_sparse()
    loop.update.run()
    torch.testing.assert_close(loop.weight.detach(), before - 0.1)


@needs_gpu
@pytest.mark.parametrize("name", ["SGD", "SGD with momentum", "Adam", "RMSprop"])
def test_updates_are_captured_on_a_gpu(name):
    device, rates = torch.device("cuda"), [0.1, 0.1, 0.05, 0.025]
    found = nn.Parameter(weight().detach().cuda())
    optimizer = OPTIMIZERS[name]([found], lr=0.1)
    update = CapturedUpdate(optimizer.step, optimizer, make_recorder(device), device)
    replay, replayed, found.grad = None, 0, torch.empty_like(found)
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        found.grad.copy_(found.detach().square())
        replay = replay or update.record()
        if update.can_replay(replay):
            replayed += 1
            replay()
        else:
            update.run()
    assert update.reason is None
    assert replayed >= 3
    torch.testing.assert_close(found.cpu(), by_hand(OPTIMIZERS[name], rates))


COUNT = 2 * WEIGHTS_PER_STREAM + 3


def some_weights(device="cpu"):
    draw = torch.Generator().manual_seed(0)
    sizes = [(1 + number % 7, 3) for number in range(COUNT)]
    return [nn.Parameter(torch.randn(s, generator=draw).to(device)) for s in sizes]


def loss_of(weights):
    return sum((weight.square() * (1 + place)).sum() for place, weight in weights)


def step(optimizer, device="cpu"):
    weights = [w for group in optimizer.param_groups for w in group["params"]]
    optimizer.zero_grad()
    backward(loss_of(enumerate(weights)))
    step_on_streams(optimizer, torch.device(device))


def groups_of(weights):
    return [{"params": weights[:40], "lr": 0.1}, {"params": weights[40:]}]


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


@pytest.fixture
def fake_streams(monkeypatch):
    """Streams that do nothing, in place of those of a GPU."""
    stream = SimpleNamespace(wait_stream=lambda other: None)
    streams = SimpleNamespace(side=(stream, stream))
    monkeypatch.setattr("gnnak.fast.step.update.own_streams", lambda _: streams)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: stream)
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)


def test_adam_on_streams_updates_all_weights_once(fake_streams):
    ours, theirs = (
        Adam([{"params": []}, *groups_of(some_weights())], lr=0.01, weight_decay=0.1)
        for _ in range(2)
    )
    whole, sizes = ours.param_groups, []
    ours.register_step_pre_hook(lambda one, *_: sizes.append(size_of(one)))
    for _ in range(3):
        step(ours)
        weights = [w for g in theirs.param_groups for w in g["params"]]
        backward(loss_of(enumerate(weights)))
        theirs.step()
        theirs.zero_grad()
    assert ours.param_groups is whole
    assert sizes == [32, 8, COUNT - 40] * 3
    assert str(ours.state_dict()) == str(theirs.state_dict())
    assert str(ours.param_groups) == str(theirs.param_groups)


def test_adam_on_streams_keeps_its_groups_if_a_step_fails(monkeypatch, fake_streams):
    optimizer = Adam(groups_of(some_weights()))
    whole = optimizer.param_groups
    monkeypatch.setattr(optimizer, "step", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        step_on_streams(optimizer, torch.device("cpu"))
    assert optimizer.param_groups is whole


def size_of(optimizer):
    return sum(len(group["params"]) for group in optimizer.param_groups)
