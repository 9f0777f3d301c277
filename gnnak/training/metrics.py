"""Metrics that score the outputs for a data set; based on torchmetrics.

The scores are computed over all processes of a run.
"""

from torch import Tensor
from torchmetrics import MeanAbsoluteError, MeanSquaredError, Metric
from torchmetrics.classification import MulticlassAccuracy, MulticlassRecall
from torchmetrics.functional.classification import (
    binary_auroc,
    binary_average_precision,
)

from gnnak.datasets.record import DatasetInfo
from gnnak.training.column_metrics import Collected, ColumnMean, TargetMean
from gnnak.training.own_metrics import make_own_metric


class LogSquared(MeanSquaredError):  # noqa: N818, no exception
    """Metric: log10 of the mean squared error."""

    def compute(self) -> Tensor:
        """Return log10 of the mean squared error over all batches added so far."""
        return super().compute().log10()


def make_metric(info: DatasetInfo) -> Metric:
    """Build the torchmetrics metric of a data set.

    The method `update(outputs, targets)` of the metric adds a batch. Both tensors are
    [rows, columns], where a row is a graph, or a node if the task has node targets. For
    multi-class classification, they are [rows, classes] and [rows].
    """
    if info.own_data:
        return make_own_metric(info)
    classes = info.num_outputs
    if info.metric == "mae":
        return MeanAbsoluteError()
    if info.metric == "log10-mse":
        return LogSquared()
    if info.metric == "accuracy":
        return MulticlassAccuracy(classes, average="micro", validate_args=False)
    if info.metric == "class-recall":
        return MulticlassRecall(classes, average="macro", validate_args=False)
    if info.metric == "roc-auc":
        return ColumnMean(lambda scores, answers: binary_auroc(scores, answers))
    return ColumnMean(lambda scores, answers: binary_average_precision(scores, answers))


def why_undefined(metric: Metric, name: str, part: str, score: float) -> str:
    """Say why the score of some graphs is not a finite number.

    Args:
        metric: The metric, with the batches of these graphs.
        name: The name of the metric.
        part: The part of the data set to which the graphs belong.
        score: The score: NaN or infinite.
    """
    finite = isinstance(metric, Collected) and not any(
        scores.isnan().any() for scores in metric.scores
    )
    if finite and isinstance(metric, TargetMean):
        return (
            f"{name} is not defined for the targets of the {part} graphs, for example "
            "because they are all equal or there is only one"
        )
    if finite:
        return (
            f"{name} needs graphs of both classes, but no label of the {part} graphs "
            "has both"
        )
    if name == "log10-mse" and score < 0:
        return f"the error on the {part} graphs is 0, whose logarithm is infinite"
    return f"outputs or targets of the {part} graphs are not finite numbers"
