"""Loss functions, and the normalisation of regression targets."""

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from gnnak.datasets.record import (
    Dataset,
    DatasetInfo,
    Scaling,
    Task,
    target_scaling,
)
from gnnak.distributed import several_processes, sum_over_processes
from gnnak.errors import OptionError
from gnnak.training.config.run_config import Loss

TermsAndWeights = tuple[Tensor, Tensor]
"""The loss of each target before averaging, and its weight in the average."""
Terms = Callable[[Tensor, Tensor, Tensor], TermsAndWeights]
FOR: dict[Task, tuple[Loss, ...]] = {
    "regression": ("l1", "mse"),
    "classification": ("cross-entropy", "weighted-cross-entropy"),
    "multilabel": ("bce",),
}
"""The losses that can be used for each kind of task; the first is the default."""


def make_loss(info: DatasetInfo, name: Loss | None) -> Callable[..., Tensor]:
    """Return the loss function `name`; if it is None, the default of the task."""
    name = name or FOR[info.task][0]
    if name not in FOR[info.task]:
        raise OptionError(
            f"train.loss is {name!r}, but {info.name} is a {info.task} task; use one "
            f"of: {', '.join(FOR[info.task])}."
        )
    terms_of = _TERMS[name]

    def loss(outputs: Tensor, targets: Tensor, real: Tensor | None = None) -> Tensor:
        counts = torch.ones_like(outputs[:, 0], dtype=torch.bool)
        if real is not None:
            counts = torch.arange(len(outputs), device=outputs.device) < real
        # Set padding rows to 0: they may be infinite, and 0 * infinity is NaN.
        outputs = torch.where(counts[:, None], outputs, 0)
        terms, weights = terms_of(outputs, targets, counts)
        weights = weights * counts.view(-1, *[1] * (terms.dim() - 1))
        weight, processes = weights.sum(), 1
        if several_processes():
            processes = dist.get_world_size()
            sum_over_processes(weight)
        total = (terms * weights).sum()
        # DDP (distributed data parallel) averages gradients over processes; multiplied
        # by their number, the average is the sum.
        return total / weight.clamp(min=1e-12) * processes

    return loss


def _of_known(loss: Callable[..., Tensor]) -> Terms:
    """Return a function that gives loss terms; NaN targets have weight 0."""

    def terms(outputs: Tensor, targets: Tensor, counts: Tensor) -> TermsAndWeights:
        found = loss(outputs, targets.nan_to_num(), reduction="none")
        return found, (~targets.isnan()).to(found.dtype)

    return terms


def _cross_entropy(outputs: Tensor, targets: Tensor, counts: Tensor) -> TermsAndWeights:
    terms = functional.cross_entropy(outputs, targets, reduction="none")
    return terms, torch.ones_like(terms)


def _weighted_cross_entropy(
    outputs: Tensor, targets: Tensor, counts: Tensor
) -> TermsAndWeights:
    named = functional.one_hot(targets, outputs.size(1)) * counts[:, None]
    found = named.sum(dim=0).to(outputs.dtype)
    if several_processes():
        sum_over_processes(found)
    weights = 1 - found / found.sum()
    terms = functional.cross_entropy(outputs, targets, reduction="none")
    return terms, weights.index_select(0, targets)


_TERMS: dict[Loss, Terms] = {
    "l1": _of_known(functional.l1_loss),
    "mse": _of_known(functional.mse_loss),
    "cross-entropy": _cross_entropy,
    "weighted-cross-entropy": _weighted_cross_entropy,
    "bce": _of_known(functional.binary_cross_entropy_with_logits),
}


class Scaler(nn.Module):
    """Normalises targets to mean 0 and deviation 1, and converts outputs back."""

    mean: Tensor
    """[targets]: the mean of each target."""
    deviation: Tensor
    """[targets]: the standard deviation of each target."""

    def __init__(self, scaling: Scaling) -> None:
        super().__init__()
        mean, deviation = scaling.mean, scaling.deviation
        self.register_buffer("mean", torch.tensor(mean), persistent=False)
        self.register_buffer("deviation", torch.tensor(deviation), persistent=False)

    def normalise(self, targets: Tensor) -> Tensor:
        return (targets - self.mean) / self.deviation

    def restore(self, outputs: Tensor) -> Tensor:
        return outputs * self.deviation + self.mean


def with_scaling(dataset: Dataset, train: Tensor) -> DatasetInfo:
    """Return `dataset.info`; for regression on own data, set `scaling` from `train`."""
    info = dataset.info
    if not info.own_data or info.task != "regression":
        return info
    y = dataset.targets_of(train)
    scaling = target_scaling(y.reshape(y.size(0), -1))
    return replace(info, scaling=scaling)
