"""The metrics that score a network on a data set; based on torchmetrics."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
import torchmetrics
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.classification import MulticlassRecall
from torchmetrics.utilities import dim_zero_cat

from gnnak.datasets.record import METRICS, DatasetInfo
from gnnak.errors import OptionError

Score = Callable[[Tensor, Tensor], Tensor]
"""A function that returns a score, given outputs and targets."""


class Collected(Metric):
    """A metric that collects all outputs and targets; subclasses compute the score."""

    full_state_update = False
    scores: list[Tensor]
    answers: list[Tensor]

    def __init__(self, figure: Score) -> None:
        super().__init__()
        self.figure = figure
        self.add_state("scores", [], dist_reduce_fx="cat")
        self.add_state("answers", [], dist_reduce_fx="cat")

    def update(self, scores: Tensor, answers: Tensor) -> None:
        """Add outputs, [rows, columns], and targets, [rows, columns] or [rows]."""
        self.scores.append(scores.detach())
        self.answers.append(answers)


class TargetMean(Collected):
    """The mean of a metric over targets, each divided by `deviation`; ignores NaN."""

    by_target: Tensor

    def __init__(self, figure: Score, deviation: Sequence[float] = (1.0,)) -> None:
        super().__init__(figure)
        self.deviation = deviation

    def of_targets(self) -> Tensor:
        """Return the metric of each target, [targets]; NaN if it is undefined."""
        scores, answers = dim_zero_cat(self.scores), dim_zero_cat(self.answers)
        figures = []
        for score, answer in zip(scores.t(), answers.t(), strict=True):
            known = ~answer.isnan()
            figures.append(self.of_target(score[known], answer[known]))
        return torch.stack(figures)

    def of_target(self, scores: Tensor, answers: Tensor) -> Tensor:
        """Return the metric of one target, given the rows with a known target."""
        return self.figure(scores, answers) if len(answers) else undefined(scores)

    def compute(self) -> Tensor:
        """Return the mean over targets with a defined metric; NaN if there are none.

        Set `by_target` to the metric of each target, over the rows of all processes,
        in the units of the targets.
        """
        self.by_target = self.of_targets()
        return (self.by_target / self.by_target.new_tensor(self.deviation)).nanmean()


class ColumnMean(TargetMean):
    """Averages a metric over the labels that have both classes; ignores NaN targets."""

    def of_target(self, scores: Tensor, answers: Tensor) -> Tensor:
        yes = answers.long()
        if scores.isnan().any() or not 0 < int(yes.sum()) < yes.numel():
            return undefined(scores)
        # In float32, the sigmoid of all large logits is 1: they would be tied.
        return self.figure(scores.double().sigmoid(), yes).double()

    def compute(self) -> Tensor:
        """Return the mean; NaN if a logit is NaN, or if no label has both classes."""
        mean, scores = super().compute(), dim_zero_cat(self.scores)
        return undefined(scores) if scores.isnan().any() else mean


def undefined(like: Tensor) -> Tensor:
    return like.new_tensor(torch.nan, dtype=torch.double)


class OfProbabilities(Collected):
    """A metric that `figure` computes from class probabilities and true classes."""

    def __init__(self, figure: Score, needs_both: bool = False) -> None:
        super().__init__(figure)
        self.needs_both = needs_both

    def compute(self) -> Tensor:
        scores, answers = dim_zero_cat(self.scores), dim_zero_cat(self.answers)
        if self.needs_both and answers.unique().numel() < 2:
            return torch.tensor(torch.nan)
        probability = scores.double().softmax(dim=1)
        if probability.size(1) == 2:
            probability = probability[:, 1]
        return self.figure(probability, answers)


NEEDS_BOTH = ("roc-auc", "average-precision", "mcc", "kappa")
"""Metrics that are undefined if all rows are of one class; torchmetrics returns 0."""


def make_metric(info: DatasetInfo) -> Metric:
    """Build the metric of a data set; `update(outputs, targets)` adds a batch."""
    if info.metric == "class-recall" and info.task == "classification":
        # Also of two classes, the score is the mean of their recalls.
        return MulticlassRecall(info.num_outputs, average="macro", validate_args=False)
    kind = METRICS[info.metric]
    arguments, name = dict(kind.arguments), kind.torchmetrics
    if info.task == "regression":
        logarithm = torch.log10 if info.metric == "log10-mse" else None
        figure = _figure(torchmetrics.regression, name, arguments, logarithm)
        if info.metric != "std-mae":
            return TargetMean(figure)
        if info.scaling is None:
            raise OptionError(
                f"std-mae needs normalised targets, but those of {info.name} are not "
                "normalised; use mae."
            )
        return TargetMean(figure, info.scaling.deviation)
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
) -> Score:
    """Return a function for a torchmetrics score, which is NaN if it is undefined."""

    def figure(scores: Tensor, answers: Tensor) -> Tensor:
        with warnings.catch_warnings():
            # torchmetrics warns about memory use and undefined scores.
            warnings.simplefilter("ignore")
            metric = getattr(module, name)(**arguments).to(scores.device)
            try:
                score = metric(scores, answers)
            except ValueError:
                return undefined(scores)
        return score.double() if then is None else then(score.double())

    return figure


def why_undefined(metric: Metric, name: str, part: str, score: float) -> str:
    finite = isinstance(metric, Collected) and not any(
        scores.isnan().any() for scores in metric.scores
    )
    if name == "log10-mse" and score < 0:
        return f"the error on the {part} graphs is 0, whose logarithm is infinite"
    if finite and isinstance(metric, TargetMean) and not isinstance(metric, ColumnMean):
        return (
            f"{name} is not defined for the targets of the {part} graphs, for example "
            "because they are all equal or there is only one"
        )
    if finite:
        return (
            f"{name} needs graphs of both classes, but no label of the {part} graphs "
            "has both"
        )
    return f"outputs or targets of the {part} graphs are not finite numbers"
