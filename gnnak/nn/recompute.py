"""Activation checkpointing: recompute activations in the backward pass."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Self

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from gnnak.backend import current_backend, use_backend
from gnnak.nn.norm import current_real_rows, real_rows


def recomputed(
    module: nn.Module, *arguments: Any, function: Callable[..., Any] | None = None
) -> Any:
    """Call `module`, or its part `function`; recompute activations in backward.

    The recomputation has the same dropout masks, and updates no running statistics.
    """
    again = SecondPass(module)
    return checkpoint(
        function or module,
        *arguments,
        use_reentrant=False,
        context_fn=lambda: (nullcontext(), again),
    )


class SecondPass(ExitStack):
    """Context manager for the recomputation of a module in the backward pass.

    PyTorch may recompute in another thread, outside of the `with` blocks of the forward
    pass. So this context manager sets the backend and the real rows of the forward
    pass. The running statistics of BatchNorms do not change.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.backend, self.rows = current_backend(), current_real_rows()

    def __enter__(self) -> Self:
        self.enter_context(use_backend(self.backend))
        self.enter_context(frozen_running_statistics(self.module))
        self.enter_context(real_rows(self.rows))
        return self


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
