"""What is minimised, as a sum over targets and the weight of that sum.

A loss is `sum / weight`. The two are kept apart so that several processes, each with
its share of a batch, can divide by the weight of the whole batch: the gradient then is
that of one process.
"""

from collections.abc import Callable

import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from gnnak.datasets.record import DatasetInfo, Task
from gnnak.errors import OptionError
from gnnak.training.config import Loss

SumAndWeight = tuple[Tensor, Tensor]
DEFAULT: dict[Task, Loss] = {
    "regression": "l1",
    "classification": "cross-entropy",
    "multilabel": "bce",
}
FOR: dict[Task, tuple[Loss, ...]] = {
    "regression": ("l1", "mse"),
    "classification": ("cross-entropy", "weighted-cross-entropy"),
    "multilabel": ("bce",),
}


def make_loss(info: DatasetInfo, name: Loss | None) -> Callable[..., Tensor]:
    """The loss function of outputs and targets.

    Args:
        info: What is asked; says which losses there can be.
        name: One of them; None = the usual one.

    Raises:
        OptionError: If this loss is none for such a task.
    """
    name = name or DEFAULT[info.task]
    if name not in FOR[info.task]:
        raise OptionError(
            f"train.loss is {name!r}, but {info.name} is a {info.task} task; use one "
            f"of: {', '.join(FOR[info.task])}."
        )
    terms = _TERMS[name]

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        total, weight = terms(outputs, targets)
        processes = 1
        if dist.is_available() and dist.is_initialized():
            processes = dist.get_world_size()
            dist.all_reduce(weight)
        # Gradients are averaged over processes; they are to be summed.
        return total / weight.clamp(min=1e-12) * processes

    return loss


def _l1(outputs: Tensor, targets: Tensor) -> SumAndWeight:
    return _all(functional.l1_loss(outputs, targets, reduction="none"))


def _mse(outputs: Tensor, targets: Tensor) -> SumAndWeight:
    return _all(functional.mse_loss(outputs, targets, reduction="none"))


def _cross_entropy(outputs: Tensor, targets: Tensor) -> SumAndWeight:
    return _all(functional.cross_entropy(outputs, targets, reduction="none"))


def _weighted_cross_entropy(outputs: Tensor, targets: Tensor) -> SumAndWeight:
    """Each class weighs 1 minus its share of the batch (over all processes)."""
    counts = functional.one_hot(targets, outputs.size(1)).sum(dim=0).to(outputs.dtype)
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(counts)
    weights = 1 - counts / counts.sum()
    total = functional.cross_entropy(outputs, targets, weights, reduction="sum")
    return total, weights.index_select(0, targets).sum()


def _bce(outputs: Tensor, targets: Tensor) -> SumAndWeight:
    """Over the answers that are known."""
    known = ~targets.isnan()
    terms = functional.binary_cross_entropy_with_logits(
        outputs, targets.nan_to_num(), reduction="none"
    )
    return (terms * known).sum(), known.sum().to(terms.dtype)


def _all(terms: Tensor) -> SumAndWeight:
    return terms.sum(), terms.new_full((), terms.numel())


_TERMS: dict[Loss, Callable[[Tensor, Tensor], SumAndWeight]] = {
    "l1": _l1,
    "mse": _mse,
    "cross-entropy": _cross_entropy,
    "weighted-cross-entropy": _weighted_cross_entropy,
    "bce": _bce,
}
