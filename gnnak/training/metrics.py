"""How predictions are scored, from torchmetrics, summed over all processes."""

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
    """log10 of the mean squared error."""

    def compute(self) -> Tensor:
        """The figure over all that was seen."""
        return super().compute().log10()


class ColumnMean(Metric):
    """A figure of each column of yes-or-no answers, averaged.

    Columns without both answers do not count; an answer that is NaN is left out.

    Args:
        figure: From scores and answers of one column to its figure.
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
        """Take in scores [g, columns] and answers [g, columns]."""
        self.scores.append(scores.detach())
        self.answers.append(answers)

    def compute(self) -> Tensor:
        """The mean over columns; NaN if no column has both answers."""
        scores, answers = dim_zero_cat(self.scores), dim_zero_cat(self.answers)
        figures = []
        for score, answer in zip(scores.t(), answers.t(), strict=True):
            known = ~answer.isnan()
            score, yes = score[known], answer[known].long()
            if 0 < int(yes.sum()) < yes.numel():
                # In float64, so that large logits do not become ties at 1.
                figures.append(self.figure(score.double().sigmoid(), yes))
        if not figures:
            return torch.tensor(torch.nan)
        return torch.stack(figures).mean()


def make_metric(info: DatasetInfo) -> Metric:
    """The metric of a data set: `metric.update(outputs, targets)`.

    Outputs and targets are shaped alike ([rows, columns]), but for classification,
    which takes outputs [rows, classes] and targets [rows].
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
