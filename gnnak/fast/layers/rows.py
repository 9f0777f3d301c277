"""Tensors that are either saved for backward or recomputed in the backward pass.

These tensors have a row for each node copy, or each edge copy, and are the largest of a
network. An autograd function that needs such a tensor, `rows`, in its backward pass
uses three functions of this module::

    ctx.save_for_backward(..., *to_save(rows.values, rows.recompute))  # forward pass
    ctx.recompute = recompute_function(rows.recompute)
    values = saved_or_recomputed(saved_for_rows, ctx.recompute)  # backward pass
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from gnnak.fast.kernels.records import Moments

TensorFunction = Callable[..., Tensor]
"""A function from tensors (or None) to one tensor."""


class Recompute(NamedTuple):
    """How to recompute a tensor in the backward pass, instead of saving it."""

    function: TensorFunction
    """Recomputes the tensor from the tensors in `saved`. The function must not hold a
    reference to the original tensor, whose memory could then not be freed."""
    saved: tuple[Tensor | None, ...]
    owned: bool = False
    """Whether the caller of `function` may overwrite the returned tensor, because no
    other function reads it afterwards."""
    uncached: TensorFunction | None = None
    """A version of `function` that caches no intermediate results, for callers that
    cache the returned tensor. If None, such callers use `function`."""


class Rows(NamedTuple):
    """A large matrix, and optionally how to recompute it in the backward pass."""

    values: Tensor
    """[m, c]: the matrix."""
    moments: Moments | None = None
    """Column statistics of `values`, if the kernel that computed `values` returned
    them. If None, a norm that needs the statistics computes them."""
    recompute: Recompute | None = None
    """How to recompute `values` in the backward pass. If None, `values` is saved."""


class CachedRecompute:
    """Recomputes a tensor at most once per backward pass, for several callers.

    The last caller must call `release`. Leave `caches` False if no backward pass will
    follow, since nobody would then clear the cache.
    """

    def __init__(self, function: TensorFunction) -> None:
        self.function, self.caches = function, False
        self._value: Tensor | None = None

    def __call__(self, *saved: Tensor | None) -> Tensor:
        value = self.function(*saved) if self._value is None else self._value
        if self.caches:
            self._value = value
        return value

    def release(self) -> None:
        self._value = None


def to_save(values: Tensor, recompute: Recompute | None) -> tuple[Tensor | None, ...]:
    """Return the tensors to save for backward: `values`, or `recompute.saved`."""
    return (values,) if recompute is None else recompute.saved


def recompute_function(recompute: Recompute | None) -> TensorFunction | None:
    """Return the function of a `Recompute`, to be kept in `ctx` without its tensors."""
    return None if recompute is None else recompute.function


def saved_or_recomputed(
    saved: Sequence[Tensor | None], function: TensorFunction | None
) -> Tensor:
    """Return `function(*saved)` or, if `function` is None, the tensor in `saved`."""
    if function is not None:
        return function(*saved)
    (values,) = saved
    assert values is not None
    return values


def can_overwrite(recompute: Recompute | None) -> bool:
    return recompute is not None and recompute.owned


def with_unit_stride(rows: Tensor) -> Tensor:
    """Return `rows`, copied if `stride(1)` is not 1, as kernels require."""
    return rows if rows.stride(1) == 1 else rows.contiguous()
