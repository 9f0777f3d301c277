"""The metrics of the user's own data, whose targets may be unknown (NaN)."""

import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch
import torchmetrics
from torch import Tensor
from torchmetrics import Metric

from gnnak.datasets.metric_names import METRICS
from gnnak.datasets.record import DatasetInfo
from gnnak.training.column_metrics import ColumnMean, OfProbabilities, TargetMean

NEEDS_BOTH = ("roc-auc", "average-precision", "mcc", "kappa")
"""Metrics that are undefined for rows of one class; torchmetrics returns 0 for them."""


def make_own_metric(info: DatasetInfo) -> Metric:
    """Build the metric of the user's own data, whose targets may be unknown (NaN)."""
    kind = METRICS[info.metric]
    arguments, name = dict(kind.arguments), kind.torchmetrics
    if info.task == "regression":
        logarithm = torch.log10 if info.metric == "log10-mse" else None
        return TargetMean(_figure(torchmetrics.regression, name, arguments, logarithm))
    if info.task == "multilabel" or info.num_outputs == 2:
        figure = _figure(torchmetrics.classification, f"Binary{name}", arguments)
        if info.task == "multilabel":
            return ColumnMean(figure)
        return OfProbabilities(figure, info.metric in NEEDS_BOTH)
    arguments["num_classes"] = info.num_outputs
    if info.metric == "accuracy":
        arguments["average"] = "micro"
    figure = _figure(torchmetrics.classification, f"Multiclass{name}", arguments)
    return OfProbabilities(figure, info.metric in NEEDS_BOTH)


def _figure(
    module: ModuleType,
    name: str,
    arguments: Mapping[str, Any],
    then: Callable[[Tensor], Tensor] | None = None,
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that computes a metric of torchmetrics in one call.

    Args:
        module: The module with the class of the metric.
        name: The name of the class.
        arguments: The arguments of the class.
        then: A function that is applied to the score; None = the score itself.

    Returns:
        The function. It takes predictions and targets, and returns NaN if the metric is
        undefined for them, such as a correlation of a single row.
    """

    def figure(scores: Tensor, answers: Tensor) -> Tensor:
        with warnings.catch_warnings():
            # They warn of memory and of scores that are undefined.
            warnings.simplefilter("ignore")
            metric = getattr(module, name)(**arguments).to(scores.device)
            try:
                score = metric(scores, answers)
            except ValueError:
                return scores.new_tensor(torch.nan, dtype=torch.double)
        return score.double() if then is None else then(score.double())

    return figure
