"""Tensors with a row per copy: saved for the backward pass, or recomputed in it.

An autograd function that reads `rows` in its backward pass uses three helpers::

    ctx.save_for_backward(..., *to_save(rows.values, rows.recompute))  # forward pass
    ctx.recompute = recompute_function(rows.recompute)
    values = saved_or_recomputed(saved_for_rows, ctx.recompute)  # backward pass
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from gnnak.fast.kernels.records import Moments

TensorFunction = Callable[..., Tensor]
"""A function from tensors (or None) to one tensor."""


class Recompute(NamedTuple):
    """How to compute a tensor a second time, in the backward pass.

    The tensor itself is then not saved for backward, only the inputs of `function`.
    """

    function: TensorFunction
    """Computes the tensor from the tensors in `saved`. It must not hold a reference to
    the tensor itself, which would keep it in memory."""
    saved: tuple[Tensor | None, ...]
    """The arguments of `function`, which are saved for backward. They are smaller than
    the tensor, or saved by another function anyway."""
    owned: bool = False
    """Whether the caller of `function` owns the returned buffer and may overwrite it:
    no other function reads it afterwards."""
    uncached: TensorFunction | None = None
    """The same as `function`, but without its cache of an intermediate result, for
    callers that cache the final result; None = use `function`."""


class Rows(NamedTuple):
    """A tensor with a row per copy (or edge copy), with its statistics if known."""

    values: Tensor
    """[m, c]: the tensor."""
    moments: Moments | None = None
    """Column statistics of `values`, if the kernel that computed it returned them;
    None = a norm that needs them computes them."""
    recompute: Recompute | None = None
    """How to recompute `values` in the backward pass; None = it is saved instead."""


class CachedRecompute:
    """Recomputes a tensor at most once per backward pass, for several readers.

    The first reader computes the tensor and caches it; the last one calls `release`. If
    a backward pass ends before the last reader, because few gradients were requested,
    the tensor stays in memory until this object is freed with the autograd graph.

    Args:
        function: Computes the tensor.

    Attributes:
        caches: Whether the tensor is cached. Set it only if the backward pass will call
            `release`; without a cache every call recomputes the tensor.
    """

    def __init__(self, function: TensorFunction) -> None:
        self.function, self.caches = function, False
        self._value: Tensor | None = None

    def __call__(self, *saved: Tensor | None) -> Tensor:
        """Return the cached tensor, or compute it from the tensors in `saved`."""
        value = self.function(*saved) if self._value is None else self._value
        if self.caches:
            self._value = value
        return value

    def release(self) -> None:
        """Clear the cache: the next call recomputes the tensor."""
        self._value = None


def to_save(values: Tensor, recompute: Recompute | None) -> tuple[Tensor | None, ...]:
    """Return the tensors to save for backward: `values`, or those that recompute it.

    Their number varies, so they are the last arguments of `save_for_backward`.
    """
    return (values,) if recompute is None else recompute.saved


def recompute_function(recompute: Recompute | None) -> TensorFunction | None:
    """Return only the function, to store as an attribute of an autograd context.

    Storing the whole `Recompute` would keep its tensors in memory after the backward
    pass, when autograd frees the saved tensors.
    """
    return None if recompute is None else recompute.function


def saved_or_recomputed(
    saved: Sequence[Tensor | None], function: TensorFunction | None
) -> Tensor:
    """Return a tensor in the backward pass: the saved one, or recomputed.

    Args:
        saved: The saved tensors that `to_save` had returned.
        function: The result of `recompute_function`.
    """
    if function is not None:
        return function(*saved)
    (values,) = saved
    assert values is not None
    return values


def can_overwrite(recompute: Recompute | None) -> bool:
    """Return whether the gradient of a tensor may be written into its own buffer.

    A saved tensor must stay intact for a second backward pass; a recomputed one that
    nobody reads afterwards need not. Overwriting it saves a buffer of the same size, in
    kernels that read a row before they write its gradient.
    """
    return recompute is not None and recompute.owned


def with_unit_stride(rows: Tensor) -> Tensor:
    """Return `rows` [m, c] with contiguous rows: a copy where `stride(1)` is not 1."""
    return rows if rows.stride(1) == 1 else rows.contiguous()
