"""Backends for tests: fused layers on any tensor, and plain PyTorch."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gnnak.backend import PLAIN, Backend, use_backend
from gnnak.fast import make_backend


def fused_everywhere(used: list[str]) -> Backend:
    """Return a backend that fuses layers on every device, also on a CPU.

    Without Triton's interpreter, fused layers on a CPU run on the plain kernels. The
    backend appends the name of every operation that it ran to `used`.
    """
    backend = make_backend(lambda _: not torch.compiler.is_compiling())

    def recorded(name):
        def call(*arguments, **options):
            result = backend.implementations[name](*arguments, **options)
            if result is not NotImplemented:
                used.append(name)
            return result

        return call

    return Backend("fused", {name: recorded(name) for name in backend.implementations})


@contextmanager
def path(fused: bool) -> Iterator[None]:
    """Use plain PyTorch inside a `with` block, unless `fused`: then change nothing."""
    if fused:
        yield
    else:
        with use_backend(PLAIN):
            yield


def num_fused_layers(used: list[str]) -> int:
    """Count the GNN-AK layers among the names of fused operations."""
    return used.count("encode")
