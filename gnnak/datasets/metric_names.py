"""The names of the metrics, which tasks they fit, and which direction is better."""

from __future__ import annotations

from typing import Literal, NamedTuple

from gnnak.errors import OptionError
from gnnak.typing import check_known

Task = Literal["regression", "classification", "multilabel"]
"""The task. `multilabel`: predict several binary labels, one column each, NaN where the
label is unknown."""


class MetricKind(NamedTuple):
    """One metric."""

    torchmetrics: str
    """Class in torchmetrics; for classes and labels without the prefix `Binary` or
    `Multiclass`."""
    tasks: tuple[Task, ...]
    lower: bool = False
    """Whether lower values are better."""
    arguments: tuple[tuple[str, object], ...] = ()
    """Arguments of the class in torchmetrics."""


NUMBERS: tuple[Task, ...] = ("regression",)
CLASSES: tuple[Task, ...] = ("classification", "multilabel")
METRICS: dict[str, MetricKind] = {
    "mae": MetricKind("MeanAbsoluteError", NUMBERS, lower=True),
    "mse": MetricKind("MeanSquaredError", NUMBERS, lower=True),
    "rmse": MetricKind("MeanSquaredError", NUMBERS, True, (("squared", False),)),
    "log10-mse": MetricKind("MeanSquaredError", NUMBERS, lower=True),
    "r2": MetricKind("R2Score", NUMBERS),
    "explained-variance": MetricKind("ExplainedVariance", NUMBERS),
    "pearson": MetricKind("PearsonCorrCoef", NUMBERS),
    "spearman": MetricKind("SpearmanCorrCoef", NUMBERS),
    "kendall": MetricKind("KendallRankCorrCoef", NUMBERS),
    "concordance": MetricKind("ConcordanceCorrCoef", NUMBERS),
    "mape": MetricKind("MeanAbsolutePercentageError", NUMBERS, lower=True),
    "accuracy": MetricKind("Accuracy", CLASSES),
    "class-recall": MetricKind("Recall", CLASSES),
    "precision": MetricKind("Precision", CLASSES),
    "specificity": MetricKind("Specificity", CLASSES),
    "f1": MetricKind("F1Score", CLASSES),
    "mcc": MetricKind("MatthewsCorrCoef", CLASSES),
    "kappa": MetricKind("CohenKappa", CLASSES),
    "calibration-error": MetricKind("CalibrationError", CLASSES, lower=True),
    "roc-auc": MetricKind("AUROC", CLASSES),
    "average-precision": MetricKind("AveragePrecision", CLASSES),
}
"""The metrics by name. `class-recall` is the recall averaged over classes. Metrics of
several targets or labels are averaged over the columns; a column of labels counts only
if its known labels contain both 0 and 1."""
DEFAULTS: dict[Task, str] = {
    "regression": "mae",
    "classification": "accuracy",
    "multilabel": "roc-auc",
}
"""The metric of each task if the user names none."""


def metrics_for(task: Task) -> tuple[str, ...]:
    """Return the names of the metrics that fit a task.

    >>> metrics_for("regression")[:3]
    ('mae', 'mse', 'rmse')
    """
    return tuple(name for name, kind in METRICS.items() if task in kind.tasks)


def check_metric(name: str, task: Task) -> None:
    """Raise `OptionError` unless there is such a metric and it fits the task."""
    check_known("metric", name, METRICS)
    if task not in METRICS[name].tasks:
        raise OptionError(
            f"metric is {name!r}, which does not fit a {task} task; use one of: "
            f"{', '.join(metrics_for(task))}."
        )


def lower_is_better(name: str) -> bool:
    """Return whether lower values of a metric are better, as for errors."""
    return METRICS[name].lower
