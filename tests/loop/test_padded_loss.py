"""Losses that are called with padding rows, so that they are captured, too."""

import copy

import pytest
import torch
from torch import nn
from torch.optim import Adam

from gnnak import GraphLoader, TrainingStep
from tests.loop.models import (
    Gine,
    assert_same_weights,
    by_hand,
    fields,
    molecules,
    twins,
)


def padded_mae(output, batch, real):
    """The mean absolute error of the graphs that are not padding."""
    error = (output - batch.y).abs()
    if real is None:
        return error.mean()
    is_real = torch.arange(len(error), device=error.device) < real.graphs
    return torch.where(is_real, error, 0).sum() / real.graphs


class Weighted(nn.Module):
    """A loss with a weight and a buffer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones((), dtype=torch.double))
        self.register_buffer("calls", torch.zeros(()))
        self.scale = 1.0

    def forward(self, output, batch, real):
        self.calls += 1
        return self.scale * padded_mae(self.weight * output, batch, real)


pytestmark = pytest.mark.usefixtures("calls")


def loader():
    return GraphLoader(molecules(38), 4, pad=True)


def test_captured_loss_gets_padding_and_trains_as_without():
    model, other = twins(Gine())
    seen = []

    def loss(output, batch, real):
        seen.append((len(output), real))
        return padded_mae(output, batch, real)

    step = TrainingStep(
        model, loss, Adam(model.parameters(), lr=0.01), clip=1.0, padded_loss=True
    )
    found = [float(step(batch)) for batch in loader()]
    padded = [rows for rows, real in seen if real is not None]
    assert step.reason is None
    assert set(padded) == {5}
    assert len(padded) > len(found)  # each step, and comparisons
    wanted = by_hand(other, loader(), fields, clip=1.0)
    assert found == pytest.approx(wanted, rel=1e-9)
    assert_same_weights(model, other, 1e-8)


@pytest.mark.parametrize(
    "loss",
    [
        lambda output, batch, real: (output - batch.y).abs().mean(),
        lambda output, batch, real: output.sum() + (0 if real is None else 1),
    ],
)
def test_loss_that_padding_changes_is_not_captured(loss):
    model = Gine().double().train()
    step = TrainingStep(model, loss, Adam(model.parameters()), padded_loss=True)
    batch = next(iter(loader()))
    with torch.no_grad():
        output = fields(copy.deepcopy(model), batch)
    torch.testing.assert_close(step(batch), loss(output, batch, None))
    assert step.reason.startswith("padding changes the output of PaddedLoss")


def test_weights_and_buffers_of_a_loss_are_those_of_as_many_calls():
    model, loss = Gine().double().train(), Weighted()
    optimizer = Adam([*model.parameters(), *loss.parameters()], lr=0.01)
    step = TrainingStep(model, loss, optimizer, padded_loss=True)
    batches = list(loader())
    for batch in batches:
        step(batch)
    assert step.reason is None
    assert loss.calls == len(batches)
    assert loss.weight != 1
    before = float(step(batches[0]))
    optimizer.param_groups[0]["lr"] = 0.0
    loss.scale = 100.0
    assert float(step(batches[0])) > 10 * before


def test_loss_is_not_captured_if_the_optimizer_trains_other_weights():
    model, other = Gine().double().train(), nn.Parameter(torch.ones(()))
    optimizer = Adam([*model.parameters(), other])

    def loss(output, batch, real):
        return other * padded_mae(output, batch, real)

    step = TrainingStep(model, loss, optimizer, padded_loss=True)
    step(next(iter(loader())))
    assert step.reason == "the optimizer trains weights of neither model nor loss"
    assert other != 1
