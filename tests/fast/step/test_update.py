"""Captured updates of the weights; calls stand in for captures."""

import gc
import weakref
from copy import deepcopy

import pytest
import torch
from torch import nn

from gnnak.fast.step.update import CapturedUpdate
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

    def step(self):
        self.weight.grad = self.weight.detach().square()
        if not self.update.can_replay(self.replay):
            self.replay = self.update.record()
        if not self.update.can_replay(self.replay):
            self.update.run()
        else:
            self.replayed += 1
            self.replay()


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
    for rate in rates:
        loop.optimizer.param_groups[0]["lr"] = rate
        loop.step()
    assert torch.equal(loop.weight, by_hand(OPTIMIZERS[name], rates))
    assert loop.replayed >= 3
    assert loop.optimizer.param_groups[0]["lr"] == 0.025


def test_learning_rates_are_copied_to_the_tensors_that_a_graph_reads():
    loop = Loop()
    for rate in (0.1, 0.1, 0.05):
        loop.optimizer.param_groups[0]["lr"] = rate
        loop.step()
    assert loop.update.rates[0].item() == pytest.approx(0.05)


def test_a_step_is_captured_once_the_optimizer_has_its_state():
    loop = Loop()
    loop.step()
    assert not loop.replayed
    loop.step()
    assert loop.replayed


def test_a_loaded_state_is_captured_anew():
    loop = Loop()
    for _ in range(3):
        loop.step()
    before = loop.replay
    loop.optimizer.load_state_dict(deepcopy(loop.optimizer.state_dict()))
    loop.step()
    assert loop.replay is not before
    assert loop.replayed == 3
    assert torch.equal(loop.weight, by_hand(torch.optim.Adam, [0.1] * 4))


def test_no_update_captured_with_an_old_state_is_replayed():
    loop = Loop()
    loop.step()
    small, large = loop.update.record(), loop.update.record()
    loop.optimizer.load_state_dict(deepcopy(loop.optimizer.state_dict()))
    again = loop.update.record()
    assert loop.update.can_replay(again)
    assert not loop.update.can_replay(small)
    assert not loop.update.can_replay(large)


def other_weight(optimizer):
    optimizer.param_groups[0]["params"].append(weight())


def other_group(optimizer):
    optimizer.add_param_group({"params": [weight()]})


def other_moments(optimizer):
    for state in optimizer.state.values():
        state["exp_avg"] = torch.zeros_like(state["exp_avg"])


def no_state(optimizer):
    optimizer.state.clear()


@pytest.mark.parametrize("change", [other_weight, other_group, other_moments, no_state])
def test_no_update_is_replayed_after_a_change_of(change):
    loop = Loop()
    loop.step()
    captured = loop.update.record()
    assert loop.update.can_replay(captured)
    change(loop.optimizer)
    assert not loop.update.can_replay(captured)
    loop.step()


def test_the_memory_of_captured_states_stays_allocated():
    loop = Loop()
    loop.step()
    loop.update.record()
    state = weakref.ref(loop.optimizer.state[loop.weight]["exp_avg"])
    loop.optimizer.state.clear()
    gc.collect()
    assert state() is not None


def test_released_updates_are_not_replayed():
    loop = Loop()
    loop.step()
    captured = loop.update.record()
    loop.update.forget()
    assert not loop.update.can_replay(captured)


def test_hooks_added_later_end_the_capture():
    loop, called = Loop(), []
    for _ in range(2):
        loop.step()
    loop.optimizer.register_step_post_hook(lambda *_: called.append(1))
    loop.step()
    assert called == [1]
    assert "hooks" in loop.update.reason


def test_a_scheduler_built_later_does_not_end_the_capture():
    loop = Loop()
    for _ in range(2):
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
    for _ in range(3):
        loop.step()
    assert loop.replayed == 0
    assert "Own" in loop.update.reason
    assert torch.equal(loop.weight, by_hand(Own, [0.1] * 3))


def test_an_optimizer_with_hooks_is_called_as_it_is():
    optimizer = torch.optim.Adam([weight()])
    optimizer.register_step_post_hook(lambda *_: None)
    update = CapturedUpdate(
        optimizer.step, optimizer, CallRecorder(), torch.device("cpu")
    )
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
    for _ in range(3):
        loop.step()
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
