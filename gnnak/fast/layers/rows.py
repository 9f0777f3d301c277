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
    """The tensors that `function` takes as arguments. They are saved for backward
    instead of its result."""
    owned: bool = False
    """Whether the caller of `function` owns the returned tensor and may overwrite it,
    because no other function reads that tensor afterwards."""
    uncached: TensorFunction | None = None
    """Like `function`, but without a cache of intermediate results, for callers that
    cache the final result themselves; None = these callers use `function`."""


class Rows(NamedTuple):
    """A large matrix, and how to recompute it in the backward pass.

    It has a row for each node or edge of each rooted subgraph.
    """

    values: Tensor
    """The matrix, [m, c]."""
    moments: Moments | None = None
    """Column statistics of `values`, if the kernel that computed `values` returned
    them; None = a norm that needs the statistics computes them."""
    recompute: Recompute | None = None
    """How to recompute `values` in the backward pass; None = save `values` instead."""


class CachedRecompute:
    """Recomputes a tensor at most once per backward pass, for several callers.

    The first call in a backward pass computes the tensor and caches it. The last
    autograd function that needs the tensor calls `release`, which frees it.

    Args:
        function: Computes the tensor from its saved inputs.

    Attributes:
        caches: Whether the tensor is cached. At first it is False: every call
            recomputes the tensor. Set it to True only if the backward pass will call
            `release`.
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

    These are `values` itself if `recompute` is None, else the tensors from which
    `recompute` computes `values`. Their number varies, so pass them as the last
    arguments of `save_for_backward`.
    """
    return (values,) if recompute is None else recompute.saved


def recompute_function(recompute: Recompute | None) -> TensorFunction | None:
    """Return the function of a `Recompute`, to store as an attribute of `ctx`.

    The result is None if `recompute` is None. Do not store the whole `Recompute`: its
    tensors would then stay in memory after the backward pass.
    """
    return None if recompute is None else recompute.function


def saved_or_recomputed(
    saved: Sequence[Tensor | None], function: TensorFunction | None
) -> Tensor:
    """Return, in the backward pass, the tensor that was passed to `to_save`.

    Args:
        saved: The tensors that `to_save` returned in the forward pass.
        function: The result of `recompute_function`, which recomputes the tensor from
            `saved`; None = the tensor itself was saved.
    """
    if function is not None:
        return function(*saved)
    (values,) = saved
    assert values is not None
    return values


def can_overwrite(recompute: Recompute | None) -> bool:
    """Return whether a kernel may write the gradient of a tensor over the tensor.

    This is possible for a recomputed tensor that no other function reads afterwards. A
    tensor that was saved must stay intact for a second backward pass.

    Args:
        recompute: How the tensor is recomputed; None = it was saved.
    """
    return recompute is not None and recompute.owned


def with_unit_stride(rows: Tensor) -> Tensor:
    """Return `rows`, or a contiguous clone if the entries of a row are not adjacent.

    Kernels need the entries of each row adjacent in memory, that is, `stride(1) == 1`.

    Args:
        rows: A matrix with m rows, [m, c].
    """
    return rows if rows.stride(1) == 1 else rows.contiguous()
