"""The metrics of data sets, from torchmetrics, over all processes.

`ColumnMean` is written by hand because torchmetrics gives a column (target) whose
values are all of one class the score 0 or 1, while OGB leaves such a column out.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torchmetrics import MeanAbsoluteError, MeanSquaredError, Metric
from torchmetrics.classification import MulticlassAccuracy, MulticlassRecall
from torchmetrics.functional.classification import (
    binary_auroc,
    binary_average_precision,
)
from torchmetrics.utilities import dim_zero_cat

from gnnak.datasets.record import DatasetInfo


class LogSquared(MeanSquaredError):  # noqa: N818, no exception
    """Metric: log10 of the mean squared error."""

    def compute(self) -> Tensor:
        """Return log10 of the mean squared error over all batches added so far."""
        return super().compute().log10()


class ColumnMean(Metric):
    """A metric of binary classification, averaged over columns (targets).

    Targets that are NaN (unknown) are ignored, and so are columns whose known targets
    are all 0 or all 1.

    Args:
        figure: Computes the metric of one column from its probabilities and targets.
    """

    full_state_update = False
    scores: list[Tensor]
    answers: list[Tensor]

    def __init__(self, figure: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.figure = figure
        self.add_state("scores", [], dist_reduce_fx="cat")
        self.add_state("answers", [], dist_reduce_fx="cat")

    def update(self, scores: Tensor, answers: Tensor) -> None:
        """Add a batch of logits and targets, both [graphs, columns]."""
        self.scores.append(scores.detach())
        self.answers.append(answers)

    def compute(self) -> Tensor:
        """Return the mean over columns; NaN if no column has both classes."""
        scores, answers = dim_zero_cat(self.scores), dim_zero_cat(self.answers)
        figures = []
        for score, answer in zip(scores.t(), answers.t(), strict=True):
            known = ~answer.isnan()
            score, yes = score[known], answer[known].long()
            if 0 < int(yes.sum()) < yes.numel():
                # In float32 the sigmoid of all large logits is 1: they would be tied.
                figures.append(self.figure(score.double().sigmoid(), yes))
        if not figures:
            return torch.tensor(torch.nan)
        return torch.stack(figures).mean()


def make_metric(info: DatasetInfo) -> Metric:
    """Build the metric of a data set, to which `update(outputs, targets)` adds batches.

    A row is a graph, or a node if the task has node targets. Outputs and targets are
    [rows, columns]; for classification, outputs are [rows, classes] and targets [rows].
    """
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
