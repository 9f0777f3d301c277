"""Backends for tests: fused layers on any tensor, and plain PyTorch."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gnnak.backend import PLAIN, Backend, use_backend
from gnnak.fast import make_backend


def fused_everywhere(used: list[str]) -> Backend:
    """Fused layers on any tensor, on plain kernels where none is faster.

    Args:
        used: Gets the names of the operations that were fused, in their order.
    """
    backend = make_backend(lambda _: not torch.compiler.is_compiling())

    def noted(name):
        def call(*arguments, **options):
            result = backend.implementations[name](*arguments, **options)
            if result is not NotImplemented:
                used.append(name)
            return result

        return call

    return Backend("fused", {name: noted(name) for name in backend.implementations})


@contextmanager
def path(fused: bool) -> Iterator[None]:
    """Inside, the backend is what it is outside, or plain PyTorch."""
    if fused:
        yield
    else:
        with use_backend(PLAIN):
            yield


def layers_in(used: list[str]) -> int:
    """How many layers were fused."""
    return sum(name in ("encode", "run_uplifted") for name in used)
