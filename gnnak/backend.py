"""Choose between plain PyTorch and faster implementations of the same operations.

`gnnak.fast` has a backend for machines with a GPU, and one for machines without.
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
    """A named set of faster implementations for functions decorated by `operation`."""

    name: str
    """Shown by `repr` and stored in the JSON record of a run."""
    implementations: Mapping[str, Callable[..., Any]] = field(
        default_factory=dict, repr=False
    )
    """Maps the name of an operation to a function with the same arguments, which
    returns `NotImplemented` for arguments that it does not support."""


PLAIN = Backend("plain")
"""Backend without faster implementations: every operation runs in plain PyTorch."""
_chosen: ContextVar[Backend | None] = ContextVar("backend", default=None)


def current_backend() -> Backend:
    """Return the backend of the innermost `use_backend` block, else the default one."""
    return _chosen.get() or default_backend()


@contextmanager
def use_backend(backend: Backend | None) -> Iterator[None]:
    """Context manager: use a backend, or the default for None, in this thread only."""
    token = _chosen.set(backend)
    try:
        yield
    finally:
        _chosen.reset(token)


def default_backend() -> Backend:
    """Return the backend that `set_default_backend` chose, else `PLAIN`."""
    return _default.find()


def set_default_backend(find: Callable[[], Backend]) -> None:
    """Set the function that finds the default backend, called once at first use."""
    _default.find = cache(find)


class _Default:
    find: Callable[[], Backend] = staticmethod(lambda: PLAIN)


_default = _Default()


def operation(plain: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function or method so that the current backend can replace it.

    Its `__name__` is the key in `Backend.implementations`. Code compiled by
    `torch.compile` always calls the plain function.

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
