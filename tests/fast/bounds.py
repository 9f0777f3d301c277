"""Check every memory access of the Triton kernels that the interpreter runs.

On a GPU, a kernel that reads or writes outside of its tensors mostly goes unnoticed:
the memory beside a tensor belongs to another tensor. Here each access that is not
masked must be an element of a tensor that was passed to the kernel.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch import Tensor

GUARD = 4096
"""Bytes between the tensors of a launch, so that none begins where another ends."""


class View(NamedTuple):
    """The elements of a tensor that was passed to a kernel, in memory."""

    name: str
    first: int
    """Address of the first element."""
    itemsize: int
    shape: tuple[int, ...]
    """Sizes of the axes, the axis with the largest stride first."""
    strides: tuple[int, ...]
    reach: int
    """Bytes from the first element to the end of the last one."""

    @classmethod
    def of(cls, name: str, tensor: Tensor) -> "View":
        size, stride = tuple(tensor.shape), tensor.stride()
        if tensor.is_contiguous():
            size, stride = (tensor.numel(),), (1,)
        axes = [*zip(size, stride, strict=True)]
        axes.sort(key=lambda axis: -axis[1])
        shape, strides = tuple(n for n, _ in axes), tuple(s for _, s in axes)
        last = sum((n - 1) * s for n, s in axes)
        given = (tensor.data_ptr(), tensor.itemsize, shape, strides)
        return cls(name, *given, (last + 1) * tensor.itemsize)

    def has(self, addresses: np.ndarray, itemsize: int) -> bool:
        """Return whether all addresses are those of elements of this size."""
        first = int(addresses.min()) - self.first
        if itemsize != self.itemsize or first < 0 or 0 in self.shape:
            return False
        if int(addresses.max()) - self.first >= self.reach:
            return False
        place, rest = np.divmod(addresses.astype(np.int64) - self.first, itemsize)
        if rest.any():
            return False
        if self.strides == (1,):
            return True
        for size, stride in zip(self.shape, self.strides, strict=True):
            row, place = np.divmod(place, max(stride, 1))
            if row.max() >= size:
                return False
        return not place.any()


class Launch:
    """The tensors of one launch of a kernel, copied to memory with guards between."""

    def __init__(self, kernel: str, arguments: dict[str, Any]) -> None:
        self.kernel = kernel
        self.copies: dict[int, tuple[Any, Tensor]] = {}
        self.views: list[View] = []
        given = arguments.items()
        self.arguments = {name: self._guarded(name, value) for name, value in given}

    def _guarded(self, name: str, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        storage = value.untyped_storage()
        if storage.data_ptr() not in self.copies:
            memory = torch.empty(storage.nbytes() + 2 * GUARD, dtype=torch.uint8)
            bytes_ = torch.empty(0, dtype=torch.uint8).set_(storage)
            memory[GUARD : GUARD + storage.nbytes()] = bytes_
            self.copies[storage.data_ptr()] = storage, memory
        memory = self.copies[storage.data_ptr()][1].untyped_storage()
        first = GUARD // value.itemsize + value.storage_offset()
        copy = torch.empty(0, dtype=value.dtype)
        copy.set_(memory, first, value.size(), value.stride())
        self.views.append(View.of(name, copy))
        return copy

    def check(self, what: str, pointers: Any, mask: np.ndarray | None) -> None:
        """Raise an error unless all pointers that are not masked are elements."""
        data = pointers.data
        if mask is not None and not mask.all():
            data = data[np.broadcast_to(mask.astype(bool), data.shape)]
        if not data.size:
            return
        itemsize = max(pointers.get_element_ty().primitive_bitwidth // 8, 1)
        if any(view.has(data, itemsize) for view in self.views):
            return
        first, last = int(data.min()), int(data.max())
        near = min(self.views, key=lambda view: abs(view.first - first))
        offsets = [(each - near.first) // itemsize for each in (first, last)]
        raise AssertionError(
            f"{self.kernel} {what}s outside of its tensors: elements {offsets[0]} to "
            f"{offsets[1]}, counted from {near}"
        )

    def copy_back(self) -> None:
        for storage, memory in self.copies.values():
            bytes_ = torch.empty(0, dtype=torch.uint8).set_(storage)
            bytes_.copy_(memory[GUARD : GUARD + storage.nbytes()])


@contextmanager
def accesses_checked() -> Iterator[list[str]]:
    from triton.runtime import interpreter

    launched: list[str] = []
    running: list[Launch] = []
    builder, executor = interpreter.interpreter_builder, interpreter.GridExecutor
    call = executor.__call__

    def launch(self: Any, *args: Any, **kwargs: Any) -> None:
        names = dict(zip(self.arg_names, args, strict=False)) | kwargs
        found = Launch(self.fn.__name__, names)
        launched.append(found.kernel)
        running.append(found)
        try:
            call(self, **found.arguments)
        finally:
            running.pop()
        found.copy_back()

    def checked(name: str, what: str, mask_at: int | None) -> Callable:
        plain = getattr(builder, name)

        def access(pointers: Any, *more: Any) -> Any:
            mask = None if mask_at is None else more[mask_at].data
            running[-1].check(what, pointers, mask)
            return plain(pointers, *more)

        return access

    def atomic(kind: Any, pointers: Any, value: Any, mask: Any, *more: Any) -> Any:
        running[-1].check("write", pointers, mask.data)
        return plain_atomic(kind, pointers, value, mask, *more)

    plain_atomic = builder.create_atomic_rmw
    replaced = {
        "create_masked_load": checked("create_masked_load", "read", 0),
        "create_masked_store": checked("create_masked_store", "write", 1),
        "create_atomic_cas": checked("create_atomic_cas", "write", None),
        "create_atomic_rmw": atomic,
    }
    with (
        mock.patch.object(executor, "__call__", launch),
        mock.patch.multiple(builder, **replaced),
    ):
        yield launched
