"""Tensors that are either saved for backward or recomputed in the backward pass.

They have a row per node copy (a node as seen in one rooted subgraph) or edge copy (an
edge as seen in one rooted subgraph), and are the largest tensors of a network. An
autograd function that reads such `rows` in its backward pass uses three helpers::

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
    """How to recompute a tensor in the backward pass.

    The tensor itself is not saved for backward, only the inputs of `function`.
    """

    function: TensorFunction
    """Recomputes the tensor from the tensors in `saved`. The function must not hold a
    reference to the original tensor, whose memory could then not be freed."""
    saved: tuple[Tensor | None, ...]
    """The arguments of `function`, which are saved for backward. Saving them costs less
    memory than saving the tensor: they are smaller, or saved elsewhere anyway."""
    owned: bool = False
    """Whether the caller of `function` owns the returned tensor and may overwrite it,
    because no other function reads that tensor afterwards."""
    uncached: TensorFunction | None = None
    """Like `function`, but does not cache an intermediate result. For callers that
    cache the final result themselves. None = such callers use `function`."""


class Rows(NamedTuple):
    """A tensor with a row per node copy or edge copy, and how to recompute it."""

    values: Tensor
    """[m, c]: the tensor."""
    moments: Moments | None = None
    """Column statistics of `values`, if the kernel that computed `values` returned
    them; None = a norm that needs the statistics computes them."""
    recompute: Recompute | None = None
    """How to recompute `values` in the backward pass; None = save `values` instead."""


class CachedRecompute:
    """Recomputes a tensor at most once per backward pass, for several callers.

    The first call in a backward pass computes the tensor and caches it; the last
    autograd function that needs it calls `release`. If that function's backward pass
    does not run, because its gradients were not requested, the tensor stays in memory
    until this object is freed with the autograd graph.

    Args:
        function: Computes the tensor from its saved inputs.

    Attributes:
        caches: Whether the tensor is cached; at first False, and every call recomputes
            the tensor. Set it to True only if the backward pass will call `release`.
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
    """Return the tensors to save for backward, so that `values` can be read there.

    These are `values` itself if `recompute` is None, else the inputs of its function.
    Their number varies, so pass them as the last arguments of `save_for_backward`.
    """
    return (values,) if recompute is None else recompute.saved


def recompute_function(recompute: Recompute | None) -> TensorFunction | None:
    """Return the function of a `Recompute`, to store as an attribute of `ctx`.

    If `ctx` stored the whole `Recompute`, the tensors in `recompute.saved` would stay
    in memory after the backward pass, when autograd frees the saved tensors. The result
    is None if `recompute` is None.
    """
    return None if recompute is None else recompute.function


def saved_or_recomputed(
    saved: Sequence[Tensor | None], function: TensorFunction | None
) -> Tensor:
    """Return, in the backward pass, a tensor that was passed to `to_save`.

    Args:
        saved: The saved tensors, as `to_save` had returned them.
        function: The result of `recompute_function`, which recomputes the tensor from
            `saved`; None = the tensor itself was saved.
    """
    if function is not None:
        return function(*saved)
    (values,) = saved
    assert values is not None
    return values


def can_overwrite(recompute: Recompute | None) -> bool:
    """Return whether a tensor may be overwritten with its own gradient.

    A saved tensor must stay intact for a second backward pass. A recomputed tensor that
    no function reads afterwards may be overwritten, by kernels that read a row before
    they write its gradient. This saves a second buffer of the same size.

    Args:
        recompute: How the tensor is recomputed; None = it was saved.
    """
    return recompute is not None and recompute.owned


def with_unit_stride(rows: Tensor) -> Tensor:
    """Return `rows`, or a contiguous clone if the entries of a row are not adjacent.

    Kernels need the entries of each row adjacent in memory, that is, `stride(1) == 1`.

    Args:
        rows: A matrix, [m, c].
    """
    return rows if rows.stride(1) == 1 else rows.contiguous()
