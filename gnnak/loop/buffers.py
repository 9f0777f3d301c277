"""Compare and restore the buffers of a model that is called for a comparison only.

A call of a model in training may change buffers, such as running statistics, moving
averages or counters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gnnak.loop.changes import is_inexact, real_dtype

TOLERANCES = {
    torch.double: (1e-9, 1e-12),
    torch.float: (2e-3, 1e-5),
    torch.half: (5e-2, 4e-3),
    torch.bfloat16: (5e-2, 2e-2),
}
"""Largest allowed difference of a buffer after two calls, by dtype: relative to the
largest change by the first call, plus relative to the largest value."""
AUTOCAST_TOLERANCES = (2e-2, 1e-3)
"""The same at least, if the calls run with autocast."""


@dataclass(frozen=True, eq=False)
class _Place:
    """A buffer of a module, with its value before a call of the model."""

    module: nn.Module
    name: str
    tensor: Tensor | None
    """The buffer; None if it is registered as None."""
    memory: Tensor | None
    """A tensor that shares the buffer's memory, even if `buffer.data` is replaced."""
    copy: Tensor | None
    """The values of the buffer, in host memory, which is larger than GPU memory."""
    has_gradient: bool
    """Whether the buffer requires a gradient."""

    def is_replaced(self) -> bool:
        """Return whether the module has another tensor, or other memory, as buffer."""
        now = self.module._buffers.get(self.name)
        if now is not self.tensor:
            return True
        if now is None or self.memory is None:
            return False
        return now.data_ptr() != self.memory.data_ptr()

    def restore(self) -> None:
        """Give the module its buffer back, at the same address and with its values."""
        if self.is_replaced():
            self.module._buffers[self.name] = self.tensor
        if self.tensor is None or self.memory is None or self.copy is None:
            return
        if self.is_replaced():
            self.tensor.data = self.memory
        if self.tensor.requires_grad and not self.has_gradient:
            # A call with gradients has changed the buffer in place.
            self.tensor.detach_()
        if self.new_values() is not None:
            self.memory.copy_(self.copy)

    def new_values(self) -> Tensor | None:
        """Return the present values, in host memory; None if they have not changed."""
        if self.memory is None or self.copy is None:
            return None
        now = self.memory.cpu()
        if torch.equal(now, self.copy):
            return None
        return now.clone() if now is self.memory else now


class SavedBuffers:
    """The buffers of a model, to be restored before and after calls of the model.

    Buffers that the model has not built yet, and sparse ones, are left out.

    Args:
        model: The model.
    """

    def __init__(self, model: nn.Module) -> None:
        self._places = [
            _Place(module, name, tensor, *_saved(tensor))
            for module in model.modules()
            for name, tensor in module._buffers.items()
            if tensor is None or _is_dense(tensor)
        ]

    def restore(self) -> None:
        """Undo all changes of buffers, in place."""
        for place in self._places:
            place.restore()

    def call(self, run: Callable[[], Any]) -> tuple[Any, list[Tensor | None]]:
        """Restore the buffers, then call a function.

        Returns:
            What the function returns and, for each buffer, its new values; None if the
            call has not changed them.
        """
        self.restore()
        found = run()
        return found, [place.new_values() for place in self._places]

    def replaced(self) -> tuple[nn.Module, str] | None:
        """Return the first module that has replaced a buffer, and the buffer's name."""
        found = (p for p in self._places if p.is_replaced())
        return next(((place.module, place.name) for place in found), None)

    def first_difference(
        self, wanted: list[Tensor | None], found: list[Tensor | None], autocast: bool
    ) -> tuple[nn.Module, str] | None:
        """Return the first module with a buffer that differs after two calls.

        Args:
            wanted: The new values after the first call, as returned by `call`.
            found: The new values after the second call.
            autocast: Whether the calls run with autocast.

        Returns:
            The module and the name of its buffer; None if there is no difference but
            for rounding.
        """
        for place, one, other in zip(self._places, wanted, found, strict=True):
            if place.copy is None or (one is None and other is None):
                continue
            after = [place.copy if each is None else each for each in (one, other)]
            if not _are_close(place.copy, after[0], after[1], autocast):
                return place.module, place.name
        return None


def _is_dense(tensor: Tensor) -> bool:
    """Return whether a tensor is dense and has a shape."""
    return not is_lazy(tensor) and tensor.layout == torch.strided


def _saved(tensor: Tensor | None) -> tuple[Tensor | None, Tensor | None, bool]:
    """Return a tensor with the same memory, a copy in host memory, and `has_gradient`.

    All are as in `_Place`.
    """
    if tensor is None:
        return None, None, False
    copy = tensor.detach().to("cpu", copy=True)
    return tensor.detach(), copy, tensor.requires_grad


def _are_close(before: Tensor, wanted: Tensor, found: Tensor, autocast: bool) -> bool:
    """Return whether two values of a buffer are equal but for rounding.

    The difference is compared with the change by the first call: a running mean changes
    by a small part of a batch's mean.

    Args:
        before: The values before both calls.
        wanted: The values after the first call.
        found: The values after the second call.
        autocast: Whether the calls run with autocast.
    """
    if not is_inexact(wanted):
        return torch.equal(wanted, found)
    change, size = (
        float(each.abs().nan_to_num(0.0, 0.0).max()) if each.numel() else 0.0
        for each in (wanted - before, wanted)
    )
    of_change, of_size = TOLERANCES.get(real_dtype(wanted), TOLERANCES[torch.bfloat16])
    if autocast:
        of_change = max(of_change, AUTOCAST_TOLERANCES[0])
        of_size = max(of_size, AUTOCAST_TOLERANCES[1])
    allowed = of_change * change + of_size * size
    return torch.allclose(found, wanted, rtol=0.0, atol=allowed, equal_nan=True)
