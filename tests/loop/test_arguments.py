"""Wrong arguments of a `TrainingStep` are refused when it is built."""

import functools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gnnak import GraphLoader, TrainingStep
from gnnak.errors import OptionError
from tests.loop.models import Gine, mae, molecules, sgd_step


def weighted(weight, output, batch, scale=1.0):
    return weight * scale * mae(output, batch)


class Weighted(nn.Module):
    def forward(self, output, batch):
        return mae(output, batch)


class Derived(nn.MSELoss):
    def forward(self, output, batch):
        return super().forward(output, batch.y)


class Callable:
    def __call__(self, output, batch):
        return mae(output, batch)

    def method(self, output, batch):
        return mae(output, batch)


class Called(nn.Module):
    """A loss of a user that defines `__call__` in place of `forward`."""

    def __call__(self, output, batch):
        return mae(output, batch)


def build(loss=mae, **options: object) -> TrainingStep:
    return sgd_step(Gine().double(), loss, **options)


@pytest.mark.parametrize(
    ("loss", "wanted"),
    [
        (F.mse_loss, r"mse_loss takes tensors; write .*: mse_loss\(output, batch.y\)"),
        (F.cosine_similarity, "cosine_similarity takes tensors"),
        (nn.MSELoss(), r"MSELoss takes tensors; write .*: MSELoss\(\)\(output, batch."),
        (nn.CTCLoss(), "loss gets .output, batch., but CTCLoss takes tensors"),
        (nn.MSELoss, "loss is the class MSELoss; give a function"),
    ],
)
def test_training_step_refuses_a_loss_of_other_arguments(loss, wanted):
    with pytest.raises(OptionError, match=wanted):
        build(loss)


@pytest.mark.parametrize(
    "loss",
    [
        lambda *args: mae(*args),
        lambda output, batch, scale=1.0: mae(output, batch) * scale,
        functools.partial(weighted, 2.0),
        functools.partial(weighted, 2.0, scale=3.0),
        Weighted(),
        Derived(),
        Callable(),
        Callable().method,
        Called(),
        torch.no_grad()(mae),
    ],
)
def test_training_step_takes_any_loss_of_an_output_and_a_batch(loss):
    assert build(loss).loss is loss


def test_training_step_trains_with_a_loss_that_derives_from_one_of_pytorch():
    batch = next(iter(GraphLoader(molecules(3), 3)))
    assert build(Derived())(batch) > 0


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"call": 3}, "call is 3; give a function"),
        ({"capture": "no"}, "capture is 'no'; give True or False"),
        ({"capture": 1}, "capture is 1; give True or False"),
        ({"capture": None}, "capture is None; give True or False"),
    ],
)
def test_training_step_refuses_wrong_choices(options, wanted):
    with pytest.raises(OptionError, match=wanted):
        build(**options)


def test_training_step_describes_arguments_in_the_wrong_order_in_one_line():
    model = Gine()
    optimizer = torch.optim.Adam(model.parameters())
    with pytest.raises(OptionError, match=r"^loss is an Adam; give a function loss"):
        TrainingStep(model, optimizer, mae)
    with pytest.raises(OptionError, match=r"^optimizer is a function; give an optimis"):
        TrainingStep(model, mae, mae)
    with pytest.raises(OptionError, match=r"^the model is an Adam; give a built PyTor"):
        TrainingStep(optimizer, mae, model)
