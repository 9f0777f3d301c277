"""Metrics that are computed from all outputs and targets, column by column.

The scores are computed over all processes of a run. `ColumnMean` is written by hand
because of label columns with only one class: OGB leaves them out of the mean, while
torchmetrics gives them the score 0 or 1.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat


class Collected(Metric):
    """A metric that collects all outputs and targets; subclasses compute the score.

    Args:
        figure: Computes the metric from predictions and targets.
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
        """Add outputs (`scores`), [rows, columns], and targets (`answers`)."""
        self.scores.append(scores.detach())
        self.answers.append(answers)


class ColumnMean(Collected):
    """A metric of binary classification, averaged over the label columns.

    Labels that are NaN (unknown) are ignored, and so are columns whose known labels are
    all 0 or all 1.

    Args:
        figure: Computes the metric of one column from probabilities and labels.
    """

    def compute(self) -> Tensor:
        """Return the metric averaged over columns.

        The result is NaN if no column has both labels, or if a logit is NaN.
        """
        scores, answers = dim_zero_cat(self.scores), dim_zero_cat(self.answers)
        if scores.isnan().any():
            return torch.tensor(torch.nan)
        figures = []
        for score, answer in zip(scores.t(), answers.t(), strict=True):
            known = ~answer.isnan()
            score, yes = score[known], answer[known].long()
            if 0 < int(yes.sum()) < yes.numel():
                # In float32, the sigmoid of all large logits is 1: they would be tied.
                figures.append(self.figure(score.double().sigmoid(), yes))
        if not figures:
            return torch.tensor(torch.nan)
        return torch.stack(figures).mean()


class TargetMean(Collected):
    """A metric of regression, averaged over the targets; unknown targets are ignored.

    Args:
        figure: Computes the metric of one target from outputs and targets.
    """

    def compute(self) -> Tensor:
        """Return the metric averaged over the targets for which it is defined.

        The result is NaN if the metric is defined for no target.
        """
        scores, answers = dim_zero_cat(self.scores), dim_zero_cat(self.answers)
        figures = []
        for score, answer in zip(scores.t(), answers.t(), strict=True):
            known = ~answer.isnan()
            if known.any():
                figures.append(self.figure(score[known], answer[known]))
        return torch.stack(figures).nanmean() if figures else torch.tensor(torch.nan)


class OfProbabilities(Collected):
    """A metric of classification, computed from the probabilities of the classes.

    Args:
        figure: Computes the metric from probabilities [rows, classes] and classes
            [rows]; for two classes from the probability of the second class.
        needs_both: Whether the metric is undefined if all rows are of one class.
    """

    def __init__(
        self, figure: Callable[[Tensor, Tensor], Tensor], needs_both: bool = False
    ) -> None:
        super().__init__(figure)
        self.needs_both = needs_both

    def compute(self) -> Tensor:
        """Return the metric over all rows seen since the last reset.

        The result is NaN if the metric needs rows of both classes, but all rows belong
        to one class.
        """
        scores, answers = dim_zero_cat(self.scores), dim_zero_cat(self.answers)
        if self.needs_both and answers.unique().numel() < 2:
            return torch.tensor(torch.nan)
        probability = scores.double().softmax(dim=1)
        if probability.size(1) == 2:
            probability = probability[:, 1]
        return self.figure(probability, answers)
