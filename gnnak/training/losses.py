"""Loss functions: the weighted mean of the losses of all targets.

Written by hand because PyTorch's losses divide by the sum of the weights in one
process. Here each process has a part of the batch and divides by the sum over the whole
batch, so that the gradient is the same as with a single process. Padding rows have
weight 0.
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
"""Two tensors of the same shape, which have one entry per target: the unweighted loss
of that target, and its weight in the mean."""
DEFAULT: dict[Task, Loss] = {
    "regression": "l1",
    "classification": "cross-entropy",
    "multilabel": "bce",
}
"""The loss of each kind of task if the config names no loss."""
FOR: dict[Task, tuple[Loss, ...]] = {
    "regression": ("l1", "mse"),
    "classification": ("cross-entropy", "weighted-cross-entropy"),
    "multilabel": ("bce",),
}
"""The losses that can be used for each kind of task."""


def make_loss(info: DatasetInfo, name: Loss | None) -> Callable[..., Tensor]:
    """Return the loss function for a data set.

    The returned function takes the outputs of the network, the targets and the number
    of real rows (a tensor with one entry), and returns the mean loss. It ignores the
    rows after the real ones, which are padding; None = all rows are real.

    Args:
        info: The data set; its task decides which losses are possible.
        name: The name of the loss; None = the default of the task, see `DEFAULT`.

    Raises:
        OptionError: If the loss does not fit the task.
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
        # Padding rows may be infinite; weight 0 times infinity is NaN: set them to 0.
        outputs = torch.where(counts[:, None], outputs, 0)
        terms, weights = terms_of(outputs, targets, counts)
        weights = weights * counts.view(-1, *[1] * (terms.dim() - 1))
        weight, processes = weights.sum(), 1
        if dist.is_available() and dist.is_initialized():
            processes = dist.get_world_size()
            dist.all_reduce(weight)
        total = (terms * weights).sum()
        # DDP (distributed data parallel) averages gradients over processes; multiplied
        # by their number, the average is the sum.
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
    """Cross entropy in which targets of frequent classes have smaller weights.

    If a class has 30 % of the targets in the batch (of all processes together), each of
    these targets has weight 0.7.
    """
    named = functional.one_hot(targets, outputs.size(1)) * counts[:, None]
    found = named.sum(dim=0).to(outputs.dtype)
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(found)
    weights = 1 - found / found.sum()
    terms = functional.cross_entropy(outputs, targets, reduction="none")
    return terms, weights.index_select(0, targets)


def _bce(outputs: Tensor, targets: Tensor, counts: Tensor) -> TermsAndWeights:
    """Binary cross entropy; targets that are NaN (unknown) have weight 0."""
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
