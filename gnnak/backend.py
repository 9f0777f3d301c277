"""Replace functions written in plain PyTorch by faster implementations.

A `Backend` maps names of operations, which are functions with the decorator
`operation`, to implementations. An implementation returns `NotImplemented` for
arguments that it does not support; then the function in plain PyTorch runs.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Backend:
    """Faster implementations of functions that have the decorator `operation`."""

    name: str
    """Shown by `repr` and stored in the JSON record of a run."""
    implementations: Mapping[str, Callable[..., Any]] = field(
        default_factory=dict, repr=False
    )
    """Maps the name of an operation to a function with the same arguments."""


PLAIN = Backend("plain")
"""Backend without faster implementations: every operation runs in plain PyTorch."""
_chosen: ContextVar[Backend | None] = ContextVar("backend", default=None)


def current_backend() -> Backend:
    """Return the backend of the innermost `use_backend` block, else the default one."""
    return _chosen.get() or default_backend()


@contextmanager
def use_backend(backend: Backend | None) -> Iterator[None]:
    """Context manager: use a backend in this thread. None means the default backend.

    >>> with use_backend(PLAIN):
    ...     current_backend()
    Backend(name='plain')
    """
    token = _chosen.set(backend)
    try:
        yield
    finally:
        _chosen.reset(token)


def default_backend() -> Backend:
    """Return the default backend, which `set_default_backend` sets, else `PLAIN`."""
    return _default.find()


def set_default_backend(find: Callable[[], Backend]) -> None:
    """Set a function that returns the default backend; it runs once, at first use."""
    _default.find = cache(find)


class _Default:
    find: Callable[[], Backend] = staticmethod(lambda: PLAIN)


_default = _Default()


def operation(plain: Callable[P, R]) -> Callable[P, R]:
    """Decorator: the current backend can replace the function or method.

    Backends identify the function by its `__name__`. Code compiled by `torch.compile`
    always calls the function in plain PyTorch.

    >>> @operation
    ... def double(x: int) -> int:
    ...     return x + x
    >>> with use_backend(Backend("shifts", {"double": lambda x: x << 1})):
    ...     double(3)
    6
    """
    from torch.compiler import is_compiling

    name = plain.__name__

    @wraps(plain)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not is_compiling():
            faster = current_backend().implementations.get(name)
            if faster is not None:
                result = faster(*args, **kwargs)
                if result is not NotImplemented:
                    return result
        return plain(*args, **kwargs)

    return call
