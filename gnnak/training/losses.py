"""What is minimised, as a sum over targets and the weight of that sum.

A loss is `sum / weight`. The two are kept apart so that several processes, each with
its share of a batch, can divide by the weight of the whole batch: the gradient then is
that of one process.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from gnnak.datasets.record import DatasetInfo, Task
from gnnak.errors import OptionError
from gnnak.training.config.run_config import Loss

TermsAndWeights = tuple[Tensor, Tensor]
"""A term for every target, and what it weighs, of one shape."""
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
    """The loss function of outputs and targets, and of how many of them are real.

    The first are; those that are not count nothing. None = all are.

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
    terms_of = _TERMS[name]

    def loss(outputs: Tensor, targets: Tensor, real: Tensor | None = None) -> Tensor:
        counts = torch.ones_like(outputs[:, 0], dtype=torch.bool)
        if real is not None:
            counts = torch.arange(len(outputs), device=outputs.device) < real
        # What padding rows hold does not matter, not even where it is infinite.
        outputs = torch.where(counts[:, None], outputs, 0)
        terms, weights = terms_of(outputs, targets, counts)
        weights = weights * counts.view(-1, *[1] * (terms.dim() - 1))
        weight, processes = weights.sum(), 1
        if dist.is_available() and dist.is_initialized():
            processes = dist.get_world_size()
            dist.all_reduce(weight)
        total = (terms * weights).sum()
        # Gradients are averaged over processes; they are to be summed.
        return total / weight.clamp(min=1e-12) * processes

    return loss


def _l1(outputs: Tensor, targets: Tensor, counts: Tensor) -> TermsAndWeights:
    terms = functional.l1_loss(outputs, targets, reduction="none")
    return terms, torch.ones_like(terms)


def _mse(outputs: Tensor, targets: Tensor, counts: Tensor) -> TermsAndWeights:
    terms = functional.mse_loss(outputs, targets, reduction="none")
    return terms, torch.ones_like(terms)


def _cross_entropy(outputs: Tensor, targets: Tensor, counts: Tensor) -> TermsAndWeights:
    terms = functional.cross_entropy(outputs, targets, reduction="none")
    return terms, torch.ones_like(terms)


def _weighted_cross_entropy(
    outputs: Tensor, targets: Tensor, counts: Tensor
) -> TermsAndWeights:
    """Each class weighs 1 minus its share of the batch (over all processes)."""
    named = functional.one_hot(targets, outputs.size(1)) * counts[:, None]
    found = named.sum(dim=0).to(outputs.dtype)
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(found)
    weights = 1 - found / found.sum()
    terms = functional.cross_entropy(outputs, targets, reduction="none")
    return terms, weights.index_select(0, targets)


def _bce(outputs: Tensor, targets: Tensor, counts: Tensor) -> TermsAndWeights:
    """Over the answers that are known."""
    terms = functional.binary_cross_entropy_with_logits(
        outputs, targets.nan_to_num(), reduction="none"
    )
    return terms, (~targets.isnan()).to(terms.dtype)


_TERMS: dict[Loss, Callable[[Tensor, Tensor, Tensor], TermsAndWeights]] = {
    "l1": _l1,
    "mse": _mse,
    "cross-entropy": _cross_entropy,
    "weighted-cross-entropy": _weighted_cross_entropy,
    "bce": _bce,
}
