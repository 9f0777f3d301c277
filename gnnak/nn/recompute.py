"""Activation checkpointing: recompute activations in the backward pass."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from gnnak.backend import current_backend, use_backend
from gnnak.nn.norm import current_real_rows, real_rows


def recomputed(module: nn.Module, *arguments: Any) -> Tensor:
    """Call a module without saving its activations; the backward pass recomputes them.

    The recomputation uses the same dropout masks and updates no running statistics.
    """
    backend, rows = current_backend(), current_real_rows()

    @contextmanager
    def second_pass() -> Iterator[None]:
        """Context manager: restore the forward pass's contexts, and freeze statistics.

        The recomputation runs in the backward pass, maybe in another thread, after the
        `with` blocks around the forward pass have ended.
        """
        with use_backend(backend), frozen_running_statistics(module), real_rows(rows):
            yield

    def contexts() -> tuple[AbstractContextManager, AbstractContextManager]:
        return nullcontext(), second_pass()

    return checkpoint(module, *arguments, use_reentrant=False, context_fn=contexts)


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
