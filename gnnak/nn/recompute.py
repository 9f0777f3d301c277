"""Activation checkpointing: less memory in training, for one more forward pass."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from gnnak.nn.padding import current_real_rows, real_rows


def recomputed(module: nn.Module, *arguments: Any) -> Tensor:
    """Call a module and forget what it computed on the way; backward does it again.

    Values, gradients, what dropout drops and the running statistics of norms are those
    of a plain call: the second pass draws what the first one drew, and its norms
    remember nothing.
    """

    def contexts() -> tuple[AbstractContextManager, AbstractContextManager]:
        return nullcontext(), _once_more(module, current_real_rows())

    return checkpoint(module, *arguments, use_reentrant=False, context_fn=contexts)


@contextmanager
def _once_more(module: nn.Module, counts: Mapping[int, Tensor]) -> Iterator[None]:
    """Inside, norms see what they saw in the first pass, and remember nothing."""
    with norms_without_memory(module), real_rows(counts):
        yield


@contextmanager
def norms_without_memory(module: nn.Module) -> Iterator[None]:
    """Inside, running statistics of norms stay what they are."""
    norms = [norm for norm in module.modules() if isinstance(norm, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    counts = [norm.num_batches_tracked for norm in norms]
    seen = [None if count is None else count.clone() for count in counts]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for count, before in zip(counts, seen, strict=True):
            if count is not None and before is not None:
                count.copy_(before)
