import pytest
import torch
from torch.nn import functional

from gnnak.datasets.record import DatasetInfo, Scaling
from gnnak.errors import OptionError
from gnnak.nn.features import Categorical
from gnnak.training.losses import Scaler, make_loss, target_scaling


def info(task):
    return DatasetInfo("d", "D", task, "mae", 1, Categorical((1,)), None, "made")


def test_losses_are_pytorchs():
    outputs, targets = torch.randn(5, 3), torch.randn(5, 3)
    labels = torch.tensor([0, 2, 1, 0, 0])
    l1, mse = (make_loss(info("regression"), name) for name in ("l1", "mse"))
    entropy = make_loss(info("classification"), None)
    torch.testing.assert_close(
        l1(outputs, targets), functional.l1_loss(outputs, targets)
    )
    torch.testing.assert_close(
        mse(outputs, targets), functional.mse_loss(outputs, targets)
    )
    torch.testing.assert_close(
        entropy(outputs, labels), functional.cross_entropy(outputs, labels)
    )


def test_weighted_cross_entropy_weighs_a_class_by_the_others_share():
    outputs, labels = torch.randn(4, 2), torch.tensor([0, 0, 0, 1])
    loss = make_loss(info("classification"), "weighted-cross-entropy")
    wanted = functional.cross_entropy(outputs, labels, torch.tensor([0.25, 0.75]))
    torch.testing.assert_close(loss(outputs, labels), wanted)


def test_bce_ignores_unknown_targets():
    outputs = torch.randn(3, 2, requires_grad=True)
    answers = torch.tensor([[0.0, 1.0], [torch.nan, 1.0], [1.0, torch.nan]])
    known = ~answers.isnan()
    loss = make_loss(info("multilabel"), None)(outputs, answers)
    wanted = functional.binary_cross_entropy_with_logits(outputs[known], answers[known])
    torch.testing.assert_close(loss, wanted)
    loss.backward()
    assert outputs.grad.isfinite().all()


def test_bce_without_known_targets_is_zero():
    answers = torch.full((2, 1), torch.nan)
    assert make_loss(info("multilabel"), None)(torch.ones(2, 1), answers) == 0


def test_make_loss_refuses_a_loss_of_another_task():
    with pytest.raises(OptionError, match="d is a regression task; use one of: l1, ms"):
        make_loss(info("regression"), "bce")


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("regression", "l1"),
        ("regression", "mse"),
        ("classification", "cross-entropy"),
        ("classification", "weighted-cross-entropy"),
        ("multilabel", "bce"),
    ],
)
def test_losses_ignore_padding(task, name):
    loss, real = make_loss(info(task), name), torch.tensor(4)
    outputs, targets = torch.randn(6, 3, requires_grad=True), torch.rand(6, 3)
    if task == "classification":
        targets = torch.tensor([0, 2, 1, 0, 0, 0])
    with torch.no_grad():
        outputs[4:] = torch.inf
    found = loss(outputs, targets, real)
    (grad,) = torch.autograd.grad(found, outputs)
    wanted = loss(outputs[:4], targets[:4])
    torch.testing.assert_close(found, wanted)
    (wanted_grad,) = torch.autograd.grad(wanted, outputs)
    torch.testing.assert_close(grad, wanted_grad)


def test_target_scaling_ignores_unknown_targets():
    y = torch.tensor([[1.0, 7.0], [3.0, torch.nan], [5.0, 7.0]])
    found = target_scaling(y)
    assert found.mean == (3.0, 7.0)
    assert found.deviation == ((8 / 3) ** 0.5, 1.0)


def test_target_scaling_of_a_target_that_is_never_known():
    nothing = target_scaling(torch.full((3, 1), torch.nan))
    assert nothing == Scaling((0.0,), (1.0,))


def test_scaler_restores_what_it_normalised():
    scaler = Scaler(Scaling((1e6, -2.0), (5e3, 0.5)))
    y = torch.tensor([[1.001e6, -3.0], [0.99e6, 0.0]], dtype=torch.double)
    assert torch.allclose(scaler.normalise(y)[0], torch.tensor([0.2, -2.0]).double())
    assert torch.allclose(scaler.restore(scaler.normalise(y)), y)
    assert not scaler.state_dict()
