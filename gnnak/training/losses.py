"""Loss functions: the weighted mean of one term per target.

By hand: PyTorch's losses divide by the weights of one process; here all processes, each
with a part of the batch, divide by the weights of the whole batch. The gradient is then
the same as with a single process. Padded rows have weight 0.
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
"""The term of every target, and its weight, in tensors of one shape."""
DEFAULT: dict[Task, Loss] = {
    "regression": "l1",
    "classification": "cross-entropy",
    "multilabel": "bce",
}
"""The loss of each task if none is given."""
FOR: dict[Task, tuple[Loss, ...]] = {
    "regression": ("l1", "mse"),
    "classification": ("cross-entropy", "weighted-cross-entropy"),
    "multilabel": ("bce",),
}
"""All losses of each task."""


def make_loss(info: DatasetInfo, name: Loss | None) -> Callable[..., Tensor]:
    """Return the loss as a function of outputs, targets and the number of real rows.

    Rows after the real ones are padding and are ignored; None = all rows are real.

    Args:
        info: The data set; its task decides which losses are possible.
        name: The loss; None = the default of the task.

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
        # Replace padded rows, which may be infinite: 0 times infinity is NaN.
        outputs = torch.where(counts[:, None], outputs, 0)
        terms, weights = terms_of(outputs, targets, counts)
        weights = weights * counts.view(-1, *[1] * (terms.dim() - 1))
        weight, processes = weights.sum(), 1
        if dist.is_available() and dist.is_initialized():
            processes = dist.get_world_size()
            dist.all_reduce(weight)
        total = (terms * weights).sum()
        # DDP averages the gradients over processes; the factor makes it a sum.
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
    """Cross entropy where a class weighs 1 minus its share of the batch.

    The share is counted over all processes.
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
