"""Activation checkpointing: recompute activations in the backward pass."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from gnnak.nn.padding import RealRows, current_real_rows, real_rows


def recomputed(module: nn.Module, *arguments: Any) -> Tensor:
    """Call a module without saving its activations; the backward pass recomputes them.

    Outputs, gradients and running statistics are the same as those of `module(...)`.
    The backward pass runs the module a second time, with the random state of the first
    time, so that dropout masks are the same. The second run does not update the running
    statistics of BatchNorms.

    Args:
        module: The module to call.
        arguments: The arguments of the call.
    """

    def contexts() -> tuple[AbstractContextManager, AbstractContextManager]:
        """Return the contexts of the first and of the second forward pass."""
        return nullcontext(), _second_pass(module, current_real_rows())

    return checkpoint(module, *arguments, use_reentrant=False, context_fn=contexts)


@contextmanager
def _second_pass(module: nn.Module, rows: RealRows) -> Iterator[None]:
    """Context manager for the forward pass that recomputes the activations.

    It sets the numbers of rows that are not padding again, and freezes the running
    statistics of BatchNorms.
    """
    with frozen_running_statistics(module), real_rows(rows):
        yield


@contextmanager
def frozen_running_statistics(module: nn.Module) -> Iterator[None]:
    """Context manager: freeze the running statistics of all BatchNorms in `module`."""
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
