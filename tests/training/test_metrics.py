import math

import pytest
import torch

from gnnak.datasets.record import DatasetInfo, metrics_for
from gnnak.nn.features import Categorical
from gnnak.training.metrics import make_metric, why_undefined


def info(task, metric, outputs):
    atoms = Categorical((1,))
    return DatasetInfo("d", "D", task, metric, outputs, atoms, None, "made")


def score(info, *batches):
    metric = make_metric(info)
    for outputs, targets in batches:
        metric.update(torch.tensor(outputs), torch.tensor(targets))
    return float(metric.compute())


def test_mae_is_the_mean_over_all_batches():
    figures = score(
        info("regression", "mae", 1),
        ([[1.0], [2.0]], [[0.0], [4.0]]),
        ([[0.0]], [[3.0]]),
    )
    assert figures == 2.0


def test_log10_mse_is_the_logarithm_of_the_mean_square():
    found = score(info("regression", "log10-mse", 1), ([[0.1], [0.3]], [[0.0], [0.0]]))
    assert found == pytest.approx(math.log10(0.05))


def test_accuracy_is_the_share_of_correct_predictions():
    found = score(
        info("classification", "accuracy", 3),
        (
            [[2.0, 1.0, 0.0], [0.0, 1.0, 5.0], [0.0, 1.0, 0.0], [9.0, 1.0, 0.0]],
            [0, 2, 1, 1],
        ),
    )
    assert found == 0.75


def test_class_recall_weighs_classes_equally():
    zero, one = [1.0, 0.0], [0.0, 1.0]
    found = score(
        info("classification", "class-recall", 2),
        ([zero, zero, zero, one], [0, 0, 0, 0]),
        ([one], [1]),
    )
    assert found == pytest.approx((0.75 + 1) / 2)


def test_roc_auc_ignores_unknown_targets():
    nan = math.nan
    found = score(
        info("multilabel", "roc-auc", 3),
        ([[1.0, 3.0, 0.0], [2.0, 2.0, 0.0]], [[0.0, 0.0, 1.0], [1.0, nan, nan]]),
        ([[3.0, 1.0, 0.0]], [[0.0, 1.0, 1.0]]),
    )
    # Column 0: one of two pairs right; column 1: the pair wrong; column 2: one answer.
    assert found == pytest.approx((0.5 + 0.0) / 2)


def test_roc_auc_tells_large_logits_apart():
    found = score(info("multilabel", "roc-auc", 1), ([[20.0], [25.0]], [[0.0], [1.0]]))
    assert found == 1.0


def test_average_precision_by_hand():
    found = score(
        info("multilabel", "average-precision", 1),
        ([[4.0], [3.0], [2.0], [1.0]], [[1.0], [0.0], [1.0], [0.0]]),
    )
    assert found == pytest.approx((1 / 1 + 2 / 3) / 2)


def test_roc_auc_without_both_answers_is_not_a_number():
    assert math.isnan(score(info("multilabel", "roc-auc", 1), ([[1.0]], [[1.0]])))


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


def test_column_mean_is_undefined_if_an_output_is_nan():
    outputs, targets = [[0.5], [math.nan]], [[0.0], [1.0]]
    assert math.isnan(score(info("multilabel", "roc-auc", 1), (outputs, targets)))


def own_info(task: str, metric: str, outputs: int) -> DatasetInfo:
    nodes = Categorical((1,))
    return DatasetInfo(
        "own", "own", task, metric, outputs, nodes, None, "list", own_data=True
    )


@pytest.mark.parametrize("task", ["regression", "classification", "multilabel"])
def test_every_metric_of_own_data_scores_good_outputs_better(task):
    torch.manual_seed(1)
    for metric in metrics_for(task):
        for outputs in (2, 3):
            info = own_info(task, metric, outputs)
            targets = torch.randint(0, 2, (40, outputs)).float()
            if task == "regression":
                targets = targets + torch.rand(40, outputs)
            good = 4 * targets - 2 if task == "multilabel" else targets
            if task == "classification":
                targets = torch.randint(0, outputs, (40,))
                good = 2 * torch.nn.functional.one_hot(targets, outputs).float()
            scores = []
            for given in (good + 0.01 * torch.rand_like(good), torch.randn_like(good)):
                scored = make_metric(info)
                scored.update(given[:20], targets[:20])
                scored.update(given[20:], targets[20:])
                scores.append(float(scored.compute()))
            sign = -1 if info.lower_is_better else 1
            assert sign * scores[0] > sign * scores[1], (metric, outputs, scores)


def test_metric_of_own_data_ignores_unknown_targets_by_hand():
    metric = make_metric(own_info("regression", "mae", 2))
    nan = torch.nan
    targets = torch.tensor([[0.0, nan], [nan, 2.0]])
    metric.update(torch.tensor([[1.0, 5.0], [2.0, 5.0]]), targets)
    assert float(metric.compute()) == 2.0


def test_metric_of_own_data_is_nan_if_it_is_undefined():
    metric = make_metric(own_info("regression", "r2", 1))
    metric.update(torch.tensor([[1.0]]), torch.tensor([[0.0]]))
    assert metric.compute().isnan()
