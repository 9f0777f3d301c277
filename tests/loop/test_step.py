import threading
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.optim import Adam
from torch_geometric.data import Data

import gnnak
from gnnak.loop import backward_in_calling_thread
from gnnak.loop.step import make_ready, set_rate
from tests.gpu import needs_gpu


def stepped():
    weight = nn.Parameter(torch.ones(2))
    optimizer = Adam([weight], 1e-3)
    weight.sum().backward()
    optimizer.step()
    return optimizer


def test_make_ready_changes_nothing_on_a_cpu():
    for captured in (False, True):
        optimizer = stepped()
        before = deepcopy(optimizer.state_dict())
        make_ready(optimizer, torch.device("cpu"), captured)
        assert str(optimizer.state_dict()) == str(before)


def test_make_ready_resets_a_state_that_was_captured_on_a_gpu():
    optimizer = stepped()
    plain = deepcopy(optimizer.state_dict())
    elsewhere = deepcopy(plain)
    elsewhere["param_groups"][0] |= {
        "lr": torch.tensor(1e-3, dtype=torch.double),
        "capturable": True,
        "fused": True,
    }
    optimizer.load_state_dict(elsewhere)
    make_ready(optimizer, torch.device("cpu"), captured=False)
    assert str(optimizer.state_dict()) == str(plain)


def test_set_rate_changes_a_tensor_in_place():
    optimizer = stepped()
    set_rate(optimizer, 0.5)
    assert optimizer.param_groups[0]["lr"] == 0.5
    rate = torch.tensor(0.1)
    optimizer.param_groups[0]["lr"] = rate
    set_rate(optimizer, 0.25)
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate == 0.25


def second_thread() -> bool:
    """Return whether this thread leaves its backward passes to another thread."""
    return torch._C._is_multithreading_enabled()


@pytest.mark.parametrize("before", [True, False])
def test_backward_in_calling_thread_nests_and_restores_the_setting(before):
    assert gnnak.loop.backward_in_calling_thread is backward_in_calling_thread
    with torch.autograd.set_multithreading_enabled(before):
        with backward_in_calling_thread():
            assert not second_thread()
            with backward_in_calling_thread():
                assert not second_thread()
            assert not second_thread()
        assert second_thread() == before
        with pytest.raises(ZeroDivisionError), backward_in_calling_thread():
            raise ZeroDivisionError
        assert second_thread() == before


def graphs() -> list[Data]:
    nodes = torch.arange(4)
    edge_index = torch.stack([nodes, nodes.roll(1)])
    return [Data(torch.rand(4, 1), edge_index) for _ in range(8)]


@pytest.mark.parametrize("users", [True, False])
def test_only_the_backward_pass_of_a_training_step_changes_the_setting(users):
    """The user sets it before the loop, or in the loss, and finds it there again."""
    seen = []
    model = torch.nn.Linear(1, 1)
    model.weight.register_hook(lambda _: seen.append(second_thread()))

    def loss(output, batch):
        seen.append(second_thread())
        torch.autograd.set_multithreading_enabled(users)
        return output.sum()

    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    call = lambda model, batch: model(batch.x)  # noqa: E731
    step = gnnak.TrainingStep(model, loss, optimizer, call=call)
    for before in (users, not users):
        with torch.autograd.set_multithreading_enabled(before):
            for batch in gnnak.GraphLoader(graphs(), 4):
                step(batch)
                assert second_thread() == users
    assert seen == [users, False] * 2 + [not users, False, users, False]


@needs_gpu
def test_hooks_on_a_gpu_run_in_the_calling_thread():
    weight, threads = torch.ones(1, device="cuda", requires_grad=True), []
    weight.register_hook(lambda _: threads.append(threading.get_ident()))
    for batch in gnnak.GraphLoader(graphs(), 4, device="cuda"):
        with backward_in_calling_thread():
            (batch.x * weight).sum().backward()
    assert threads == [threading.get_ident()] * 2
    (weight * 2).sum().backward()
    assert threads[2] != threading.get_ident()
