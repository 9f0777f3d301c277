import warnings

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

from gnnak import uplift
from gnnak.errors import OptionError, WidthError
from gnnak.nn import Categorical, Continuous, describe, make_encoder
from gnnak.nn.features import is_finite
from tests.operation_counts import OperationCount


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (None, None),
        (torch.tensor([[0, 3], [2, 1]]), Categorical((3, 4))),
        (torch.tensor([0, 4, 2]), Categorical((5,))),
        (torch.tensor([[0], [1]], dtype=torch.uint8), Categorical((2,))),
        (torch.tensor([True, False]), Categorical((2,))),
        (torch.zeros(0, 3, dtype=torch.long), Categorical((1, 1, 1))),
        (torch.rand(5, 7), Continuous(7)),
        (torch.rand(5), Continuous(1)),
        (torch.rand(0, 2, dtype=torch.double), Continuous(2)),
    ],
)
def test_describe_finds_kind_and_sizes(values, wanted):
    assert describe(values) == wanted


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (torch.tensor([[0], [-2]]), "a categorical feature is -2; number .* from 0"),
        (torch.zeros(2, 3, 4), r"float32 \[2, 3, 4\]; give .* \[rows, c\]"),
        (torch.zeros(2, dtype=torch.cfloat), r"complex64 \[2, 1\]; give real"),
        (torch.zeros(3, 0), "number of continuous features is 0"),
        (torch.zeros(3, 0, dtype=torch.long), "have no column"),
    ],
)
def test_describe_answers_wrong_values_in_a_sentence(values, wanted):
    with pytest.raises(OptionError, match=wanted):
        describe(values)


@pytest.mark.parametrize("sizes", [(), (3, 0), (2.5,)])
def test_categorical_refuses_impossible_sizes(sizes):
    with pytest.raises(OptionError, match=r"no column|whole number"):
        Categorical(sizes)


def test_constant_encoder_gives_every_row_one_vector():
    encoder = make_encoder(None, 4).double()
    out = encoder(None, 3)
    assert torch.equal(out, encoder.weight.repeat(3, 1))
    assert encoder(None, 0).shape == (0, 4)
    out.sum().backward()
    assert torch.equal(encoder.weight.grad, torch.full((1, 4), 3.0).double())


def test_constant_encoder_refuses_values():
    with pytest.raises(WidthError, match=r"shape \[3, 2\], but .* built for none"):
        make_encoder(None, 4)(torch.zeros(3, 2), 3)


@pytest.mark.parametrize("dtype", [torch.long, torch.int, torch.uint8])
def test_categorical_encoder_sums_one_table_row_per_column(dtype):
    encoder = make_encoder(Categorical((3, 4)), 5).double()
    values = torch.tensor([[0, 3], [2, 1]], dtype=dtype)
    first, second = encoder.tables.weight.split([3, 4])
    wanted = torch.stack([first[0] + second[3], first[2] + second[1]])
    assert torch.equal(encoder(values, 2), wanted)
    assert wanted.dtype == torch.double


def test_categorical_encoder_takes_one_column_flat():
    encoder = make_encoder(Categorical((3,)), 5)
    flat = torch.tensor([0, 2, 1])
    assert torch.equal(encoder(flat, 3), encoder(flat[:, None], 3))
    assert torch.equal(encoder(flat > 0, 3), encoder((flat > 0).long(), 3))
    assert encoder(flat[:0], 0).shape == (0, 5)


@pytest.mark.parametrize("wrong", [[0, 4], [3, 0], [-1, 0], [0, -1]])
def test_categorical_encoder_refuses_values_outside(wrong):
    """3 in the first column would otherwise be read from the second column's table."""
    encoder = make_encoder(Categorical((3, 4)), 5)
    with pytest.raises(WidthError, match=r"outside of the \[3, 4\] categories"):
        encoder(torch.tensor([[0, 0], wrong]), 2)


@pytest.mark.parametrize(
    ("features", "values", "got"),
    [
        (Categorical((3, 4)), None, "None"),
        (Categorical((3, 4)), torch.zeros(2, 2), r"torch.float32 \[2, 2\]"),
        (Categorical((3, 4)), torch.zeros(2, 3).long(), r"torch.int64 \[2, 3\]"),
        (Categorical((3, 4)), torch.zeros(2).long(), r"torch.int64 \[2, 1\]"),
        (Categorical((3, 4)), torch.zeros(5, 2).long(), r"torch.int64 \[5, 2\]"),
        (Categorical((3, 4)), torch.zeros(2, 2, 1).long(), r"torch.int64 \[2, 2, 1\]"),
        (Continuous(2), None, "None"),
        (Continuous(2), torch.zeros(2, 1), r"torch.float32 \[2, 1\]"),
        (Continuous(2), torch.zeros(2), r"torch.float32 \[2, 1\]"),
        (Continuous(2), torch.zeros(4, 2), r"torch.float32 \[4, 2\]"),
        (Continuous(2), torch.zeros(2, 2).cfloat(), r"torch.complex64 \[2, 2\]"),
    ],
)
def test_encoders_answer_wrong_shapes_in_a_sentence(features, values, got):
    kind = "whole" if isinstance(features, Categorical) else "real"
    wanted = rf"features are {got}; give {kind} numbers of shape \[2, 2\]"
    with pytest.raises(WidthError, match=wanted):
        make_encoder(features, 5)(values, 2)


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_continuous_encoder_is_linear_norm_relu(dtype):
    encoder = make_encoder(Continuous(2), 3).double().train()
    values = torch.tensor([[1.0, 2.0], [3.0, 5.0], [-1.0, 0.5]], dtype=dtype)
    mapped = values.double() @ encoder.block[0].weight.t()
    centred = mapped - mapped.mean(dim=0)
    variance = mapped.var(dim=0, unbiased=False)
    wanted = torch.relu(centred / (variance + 1e-5).sqrt())
    torch.testing.assert_close(encoder(values, 3), wanted, rtol=1e-10, atol=1e-10)
    assert encoder.block[0].bias is None


@pytest.mark.parametrize("num_rows", [0, 1])
def test_continuous_encoder_trains_on_no_row_and_on_one(num_rows):
    encoder = make_encoder(Continuous(1), 3).train()
    assert encoder(torch.rand(num_rows), num_rows).shape == (num_rows, 3)


PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def spoiled(*shape: int, value: float = float("nan")) -> torch.Tensor:
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
