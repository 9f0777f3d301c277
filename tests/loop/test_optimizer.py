from copy import deepcopy

import torch
from torch import nn
from torch.optim import Adam

from gnnak.loop.step import make_ready, set_rate


def stepped():
    """Return an Adam that has made one step, on the CPU."""
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
