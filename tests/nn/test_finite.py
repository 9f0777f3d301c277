"""Inputs that are NaN or infinite are named once."""

import warnings

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

from gnnak import uplift
from gnnak.nn.features import Continuous, is_finite, make_encoder
from tests.operation_counts import OperationCount

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def spoiled(*shape: int, value: float = float("nan")) -> torch.Tensor:
    """Random numbers, but `value` at index [1, 2]."""
    values = torch.rand(*shape)
    values[1, 2] = value
    return values


def warned(call) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("call", ["__call__", "forward"])
def test_uplifted_model_names_a_spoiled_x_once(value, call):
    net = uplift(pyg.GIN(4, 4, 3)).eval()
    run = getattr(net, call)
    assert not warned(lambda: run(torch.rand(3, 4), PATH))
    (message,) = warned(lambda: run(spoiled(3, 4, value=value), PATH))
    assert "the input x of the model has 1 values that are NaN or inf" in message
    assert f"the first at index [1, 2]: {value}; every output" in message
    assert not warned(lambda: run(spoiled(3, 4, value=value), PATH))


def test_uplifted_model_names_spoiled_edge_attributes():
    net = uplift(pyg.GINEConv(nn.Linear(4, 4)))
    (message,) = warned(lambda: net(torch.rand(3, 4), PATH, spoiled(4, 4)))
    assert "the input edge_attr of the model has 1 values" in message


def test_continuous_encoder_names_spoiled_features_once():
    encoder = make_encoder(Continuous(4), 8, rows="edges")
    (message,) = warned(lambda: encoder(spoiled(3, 4), 3))
    assert "the feature matrix of the edges has 1 values that are NaN" in message
    assert not warned(lambda: encoder(spoiled(3, 4), 3))


def test_is_finite_of_numbers_whose_sum_overflows():
    assert is_finite(torch.full((9,), 60000.0, dtype=torch.half))
    assert is_finite(torch.full((9,), 3e38))
    assert is_finite(torch.arange(3))
    assert is_finite(torch.zeros(0, 4))
    assert is_finite(None)
    assert not is_finite(torch.tensor([float("inf"), -float("inf")]))


def test_is_finite_of_several_tensors_is_that_of_each():
    fine, wrong = torch.ones(3), torch.tensor([1.0, torch.nan])
    plus, minus = torch.tensor([torch.inf]), torch.tensor([-torch.inf])
    assert is_finite(fine, None, torch.arange(2), fine.double(), fine.bfloat16())
    assert is_finite(torch.full((1,), 3e38), torch.full((1,), 3e38))
    assert not is_finite(fine, wrong)
    assert not is_finite(wrong, fine)
    assert not is_finite(plus, minus)
    assert is_finite()


def test_is_finite_of_several_tensors_synchronises_once():
    with OperationCount() as count:
        assert is_finite(torch.ones(3), torch.ones(4, 2), torch.arange(3))
    assert count.synchronising == 1


def test_uplifted_model_names_two_spoiled_inputs():
    net = uplift(pyg.GINEConv(nn.Linear(4, 4)))
    messages = warned(lambda: net(spoiled(3, 4), PATH, spoiled(4, 4)))
    assert ["input x" in each for each in messages] == [True, False]
    assert ["input edge_attr" in each for each in messages] == [False, True]
