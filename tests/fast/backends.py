"""Backends for tests: fused layers on any tensor, and plain PyTorch."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

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


def is_float(value) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def outcome(net, *given, fused=True, seed=None) -> dict[str, Tensor | None]:
    """Output, gradients of weights and real inputs, and buffers of a copy of `net`."""
    net = copy.deepcopy(net)
    given = [x.detach().clone().requires_grad_() if is_float(x) else x for x in given]
    draw = {} if seed is None else {"generator": torch.Generator().manual_seed(seed)}
    with path(fused):
        out = net(*given, **draw)
        weights = torch.arange(out.numel(), device=out.device).view_as(out).cos()
        (out * weights).sum().backward()
    found = {"out": out.detach()}
    found |= {f"input {i}": x.grad for i, x in enumerate(given) if is_float(x)}
    found |= {name: weight.grad for name, weight in net.named_parameters()}
    return found | dict(net.named_buffers())


def assert_fused_equals_plain(net, *given, close=1e-10, seed=None) -> None:
    """Compare `outcome` in the current backend with plain PyTorch."""
    found, wanted = (
        outcome(net, *given, fused=fused, seed=seed) for fused in (True, False)
    )
    torch.testing.assert_close(found, wanted, rtol=close, atol=close)


def assert_second_derivatives_equal(net, x, *given) -> None:
    """Compare gradients of the squared gradient of `x` with those in plain PyTorch."""
    found = []
    for fused in (True, False):
        one, leaf = copy.deepcopy(net), x.clone().requires_grad_()
        with path(fused):
            out = one(leaf, *given).tanh().square().sum()
            (grad,) = torch.autograd.grad(out, leaf, create_graph=True)
            grad.square().sum().backward()
        found.append([grad.detach(), *(weight.grad for weight in one.parameters())])
    for mine, wanted in zip(*found, strict=True):
        if mine is None or wanted is None:  # it does not depend on this weight
            rest = mine if wanted is None else wanted
            assert rest is None or rest.abs().max() < 1e-12
        else:
            torch.testing.assert_close(mine, wanted, rtol=1e-9, atol=1e-9)
