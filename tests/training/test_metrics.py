import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from gnnak.datasets.record import DatasetInfo, Scaling, metrics_for, target_scaling
from gnnak.errors import OptionError
from gnnak.nn.features import Categorical
from gnnak.training.losses import Scaler, make_loss
from gnnak.training.metrics import make_metric, why_undefined


def info(task, metric, outputs, **more):
    atoms = Categorical((1,))
    return DatasetInfo("d", "D", task, metric, outputs, atoms, None, "made", **more)


def score(info, *batches):
    metric = make_metric(info)
    for outputs, targets in batches:
        metric.update(torch.tensor(outputs), torch.tensor(targets))
    return float(metric.compute())


NAN = math.nan
ZERO, ONE = [1.0, 0.0], [0.0, 1.0]
BY_HAND = {
    "mean over all batches": (
        info("regression", "mae", 1),
        [([[1.0], [2.0]], [[0.0], [4.0]]), ([[0.0]], [[3.0]])],
        2.0,
    ),
    "logarithm of the mean square": (
        info("regression", "log10-mse", 1),
        [([[0.1], [0.3]], [[0.0], [0.0]])],
        math.log10(0.05),
    ),
    "share of correct predictions": (
        info("classification", "accuracy", 3),
        [([[2.0, 1, 0], [0, 1.0, 5], [0, 1.0, 0], [9.0, 1, 0]], [0, 2, 1, 1])],
        0.75,
    ),
    "classes weigh equally": (
        info("classification", "class-recall", 2),
        [([ZERO, ZERO, ZERO, ONE], [0, 0, 0, 0]), ([ONE], [1])],
        (0.75 + 1) / 2,
    ),
    "classes of own data weigh equally": (
        info("classification", "class-recall", 2, own_data=True),
        [([ZERO, ZERO, ZERO, ONE], [0, 0, 0, 0]), ([ONE], [1])],
        (0.75 + 1) / 2,
    ),
    # Column 0: one of two pairs right; column 1: the pair wrong; column 2: one answer.
    "unknown targets are ignored": (
        info("multilabel", "roc-auc", 3),
        [
            ([[1.0, 3.0, 0.0], [2.0, 2.0, 0.0]], [[0.0, 0.0, 1.0], [1.0, NAN, NAN]]),
            ([[3.0, 1.0, 0.0]], [[0.0, 1.0, 1.0]]),
        ],
        (0.5 + 0.0) / 2,
    ),
    "large logits differ": (
        info("multilabel", "roc-auc", 1),
        [([[20.0], [25.0]], [[0.0], [1.0]])],
        1.0,
    ),
    "average precision": (
        info("multilabel", "average-precision", 1),
        [([[4.0], [3.0], [2.0], [1.0]], [[1.0], [0.0], [1.0], [0.0]])],
        (1 / 1 + 2 / 3) / 2,
    ),
    "one answer only": (info("multilabel", "roc-auc", 1), [([[1.0]], [[1.0]])], NAN),
    "an output that is nan": (
        info("multilabel", "roc-auc", 1),
        [([[0.5], [NAN]], [[0.0], [1.0]])],
        NAN,
    ),
    "unknown targets of own data": (
        info("regression", "mae", 2, own_data=True),
        [([[1.0, 5.0], [2.0, 5.0]], [[0.0, NAN], [NAN, 2.0]])],
        2.0,
    ),
    "own data without spread": (
        info("regression", "r2", 1, own_data=True),
        [([[1.0]], [[0.0]])],
        NAN,
    ),
}
"""By name, what is scored, its batches of outputs and targets, and the score."""


@pytest.mark.parametrize("name", BY_HAND)
def test_score_has_the_value_computed_by_hand(name):
    info, batches, wanted = BY_HAND[name]
    assert score(info, *batches) == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize(
    ("metric", "output", "target", "told"),
    [
        ("roc-auc", 0.5, 1.0, "needs graphs of both classes, but no label of the test"),
        ("average-precision", 0.5, 0.0, "needs graphs of both classes"),
        ("roc-auc", math.nan, 1.0, "outputs or targets of the test graphs are not"),
        ("mae", math.nan, 1.0, "outputs or targets of the test graphs are not finite"),
        ("log10-mse", 1.0, 1.0, "the error on the test graphs is 0, whose logarithm"),
    ],
)
def test_why_undefined_says_what_is_missing(metric, output, target, told):
    kind = "regression" if metric in ("mae", "log10-mse") else "multilabel"
    made = make_metric(info(kind, metric, 1))
    made.update(torch.tensor([[output], [output]]), torch.tensor([[target], [target]]))
    found = float(made.compute())
    assert not math.isfinite(found)
    assert told in why_undefined(made, metric, "test", found)


@pytest.mark.parametrize("task", ["regression", "classification", "multilabel"])
def test_every_metric_of_own_data_scores_good_outputs_better(task):
    torch.manual_seed(1)
    for metric in metrics_for(task):
        for outputs in (2, 3):
            given = info(task, metric, outputs, own_data=True)
            given = replace(given, scaling=Scaling((0.0,) * outputs, (2.0,) * outputs))
            targets = torch.randint(0, 2, (40, outputs)).float()
            if task == "regression":
                targets = targets + torch.rand(40, outputs)
            good = 4 * targets - 2 if task == "multilabel" else targets
            if task == "classification":
                targets = torch.randint(0, outputs, (40,))
                good = 2 * torch.nn.functional.one_hot(targets, outputs).float()
            scores = []
            for guess in (good + 0.01 * torch.rand_like(good), torch.randn_like(good)):
                scored = make_metric(given)
                scored.update(guess[:20], targets[:20])
                scored.update(guess[20:], targets[20:])
                scores.append(float(scored.compute()))
            sign = -1 if given.lower_is_better else 1
            assert sign * scores[0] > sign * scores[1], (metric, outputs, scores)


def test_std_mae_divides_the_error_of_each_target_by_its_deviation():
    """Errors 1 and 3 of the first target, 10 of the second, whose other row is NaN."""
    given = info("regression", "std-mae", 2)
    with pytest.raises(OptionError, match="std-mae needs normalised targets, but"):
        make_metric(given)
    metric = make_metric(replace(given, scaling=Scaling((0.0, 0.0), (4.0, 20.0))))
    metric.update(torch.tensor([[1.0, 5.0]]), torch.tensor([[0.0, math.nan]]))
    metric.update(torch.tensor([[1.0, 5.0]]), torch.tensor([[4.0, 15.0]]))
    assert float(metric.compute()) == 0.5
    assert metric.by_target.tolist() == [2, 10]


def test_labels_have_scores_also_if_a_logit_is_nan():
    metric = make_metric(info("multilabel", "roc-auc", 2))
    metric.update(
        torch.tensor([[1.0, math.nan], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 1.0]])
    )
    assert math.isnan(metric.compute())
    assert metric.by_target.tolist() == pytest.approx([1, math.nan], nan_ok=True)


def info_of(task):
    return info(task, "mae", 1)


@pytest.mark.parametrize(
    ("task", "name", "wanted"),
    [
        ("regression", "l1", functional.l1_loss),
        ("regression", "mse", functional.mse_loss),
        ("classification", None, functional.cross_entropy),
    ],
)
def test_losses_are_pytorchs(task, name, wanted):
    outputs, targets = torch.randn(5, 3), torch.randn(5, 3)
    if task == "classification":
        targets = torch.tensor([0, 2, 1, 0, 0])
    found = make_loss(info_of(task), name)(outputs, targets)
    torch.testing.assert_close(found, wanted(outputs, targets))


def test_weighted_cross_entropy_weighs_a_class_by_the_others_share():
    outputs, labels = torch.randn(4, 2), torch.tensor([0, 0, 0, 1])
    loss = make_loss(info_of("classification"), "weighted-cross-entropy")
    wanted = functional.cross_entropy(outputs, labels, torch.tensor([0.25, 0.75]))
    torch.testing.assert_close(loss(outputs, labels), wanted)


def test_bce_ignores_unknown_targets():
    outputs = torch.randn(3, 2, requires_grad=True)
    answers = torch.tensor([[0.0, 1.0], [torch.nan, 1.0], [1.0, torch.nan]])
    known = ~answers.isnan()
    loss = make_loss(info_of("multilabel"), None)(outputs, answers)
    wanted = functional.binary_cross_entropy_with_logits(outputs[known], answers[known])
    torch.testing.assert_close(loss, wanted)
    loss.backward()
    assert outputs.grad.isfinite().all()


def test_bce_without_known_targets_is_zero():
    answers = torch.full((2, 1), torch.nan)
    assert make_loss(info_of("multilabel"), None)(torch.ones(2, 1), answers) == 0


def test_make_loss_refuses_a_loss_of_another_task():
    with pytest.raises(OptionError, match="d is a regression task; use one of: l1, ms"):
        make_loss(info_of("regression"), "bce")


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
    loss, real = make_loss(info_of(task), name), torch.tensor(4)
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
