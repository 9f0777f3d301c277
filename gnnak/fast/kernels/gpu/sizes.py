"""A variant of `triton.jit` that does not recompile kernels when batch sizes change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.runtime.jit import JITFunction

from gnnak.optional import interprets_triton

COUNTS = {"m", "rows", "copies", "size", "size_2", "count", "each", "half"}
"""Names of integer kernel arguments that vary from batch to batch, for example numbers
of rows or groups."""
INDICES = {
    "ptr",
    "ptr_2",
    "order",
    "order_2",
    "node",
    "rows",
    "key",
    "key_2",
    "source",
    "target",
    "edge",
    "end",
    "index",
    "centroid",
    "subgraph",
    "real",
    "weight",
    "tracked",
    "start",
    "nodes",
    "position",
    "rank",
}
"""Names of kernel arguments that are pointers whose alignment varies between batches.

Most point to index tensors of a batch, which may be slices of larger tensors."""
INT32 = 2**31
"""Triton passes integers below this size as 32-bit integers."""


def for_all_sizes(kernel: Callable[..., None]) -> Any:
    """Apply `triton.jit`, without specialising on arguments that vary between batches.

    By default, Triton compiles separate versions of a kernel, depending on which
    integer arguments are 1 or divisible by 16 and which pointers are aligned to 16
    bytes. This makes kernels faster if the argument is a number of columns or a pointer
    to values. For the arguments named in `COUNTS` and `INDICES`, it would only cause
    recompilation in the middle of training, so they are excluded. The argument `steps`,
    the number of tiles per program, is not excluded: if it is 1, Triton removes the
    loop over tiles.
    """
    names = [name for name in signature(kernel).parameters if name in COUNTS | INDICES]
    if interprets_triton():
        return triton.jit(do_not_specialize=names)(kernel)
    return CachedKernel(kernel, do_not_specialize=names)


class CachedKernel(JITFunction):
    """A Triton kernel that looks up its compiled version with a short key.

    Triton itself inspects all arguments in each launch, which takes longer than the
    launch. Here, a key with the same information is enough, because all arguments are
    positional tensors, numbers and constants. This holds for NVIDIA GPUs.

    Args:
        kernel: The kernel.
        options: Further arguments of `triton.jit`.
    """

    def __init__(self, kernel: Callable[..., None], **options: Any) -> None:
        super().__init__(kernel, **options)
        self._names = list(signature(kernel).parameters)
        self._places: _Places | None = None
        self._versions: dict[tuple[Any, ...], _Version] = {}

    def run(self, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        """Launch the kernel, or compile it alone if `warmup`."""
        if warmup or len(args) != len(self._names):
            return super().run(*args, grid=grid, warmup=warmup, **options)
        device = args[0].get_device()
        if device != torch.cuda.current_device():
            # Triton launches kernels on the current device.
            with torch.cuda.device(device):
                return self.run(*args, grid=grid, warmup=warmup, **options)
        if self._places is None:
            self._places = _Places.find(self._names, args)
        pointers = [args[i].data_ptr() for i in self._places.tensors]
        key = self._places.key(args, pointers, options)
        version = self._versions.get(key)
        if version is None:
            compiled = super().run(*args, grid=grid, warmup=False, **options)
            self._versions[key] = _Version.of(compiled)
            return compiled
        if _has_launch_hooks():
            version.compiled[(*grid, 1, 1)[:3]](*args)
        else:
            given = list(args)
            for i, pointer in zip(self._places.tensors, pointers, strict=True):
                given[i] = pointer
            version.launch((*grid, 1, 1)[:3], device, given)
        return version.compiled


class _Places(NamedTuple):
    """Which arguments of a kernel are tensors, counts, or other numbers and constants.

    An argument that is a tensor in the first call is a tensor in every call.
    """

    tensors: list[int]
    """The positions of the tensors."""
    values: list[int]
    """The positions in `tensors` of those whose alignment Triton specialises on."""
    counts: list[int]
    """The positions of the arguments named in `COUNTS`."""
    others: list[int]
    """The positions of other numbers, and of constants."""

    @classmethod
    def find(cls, names: list[str], args: tuple[Any, ...]) -> _Places:
        """Divide the arguments of a call of a kernel whose parameters have `names`."""
        tensors = [i for i, value in enumerate(args) if isinstance(value, Tensor)]
        rest = [i for i, value in enumerate(args) if not isinstance(value, Tensor)]
        return cls(
            tensors,
            [place for place, i in enumerate(tensors) if names[i] not in INDICES],
            [i for i in rest if names[i] in COUNTS],
            [i for i in rest if names[i] not in COUNTS],
        )

    def key(
        self, args: tuple[Any, ...], pointers: list[int], options: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Return a key that differs wherever Triton compiles another version.

        The key also has the devices of all tensors, so that Triton itself refuses a
        tensor on a CPU.

        Args:
            args: The arguments of the kernel, a tensor first.
            pointers: The addresses of the tensors.
            options: Launch options such as the number of warps.
        """
        return (
            *options.values(),
            *[args[i].dtype for i in self.tensors],
            *[args[i].get_device() for i in self.tensors],
            *[pointers[place] % 16 == 0 for place in self.values],
            *[args[i] < INT32 for i in self.counts],
            *[args[i] for i in self.others],
        )


class _Version(NamedTuple):
    """A compiled version of a kernel, and what its launches need."""

    compiled: Any
    """The compiled kernel."""
    run: Callable[..., None]
    """Launches the kernel; Triton's launcher."""
    fixed: tuple[Any, ...]
    """Arguments of `run` between the stream and those of the kernel. Those of hooks
    are None."""

    @classmethod
    def of(cls, compiled: Any) -> _Version:
        """Prepare the launches of a compiled kernel."""
        fixed = (compiled.function, compiled.packed_metadata, None, None, None)
        return cls(compiled, compiled.run, fixed)

    def launch(
        self, grid: tuple[int, int, int], device: int, args: Sequence[Any]
    ) -> None:
        """Launch the kernel on the current stream of the current device.

        This does what Triton's `compiled[grid](*args)` does, except that it prepares
        nothing for hooks.

        Args:
            grid: Numbers of programs.
            device: Index of the current device.
            args: The arguments of the kernel, with addresses in place of tensors:
                Triton would call two functions for each tensor to find its address.
        """
        stream = torch._C._cuda_getCurrentRawStream(device)
        self.run(*grid, stream, *self.fixed, *args)


def _has_launch_hooks() -> bool:
    """Return whether functions are to be called at each launch; profilers set them."""
    runtime = triton.knobs.runtime
    enter, leave = runtime.launch_enter_hook, runtime.launch_exit_hook
    return _calls_something(enter) or _calls_something(leave)


def _calls_something(hook: Any) -> bool:
    """Return whether a hook of Triton is set and, if it is a chain, is not empty."""
    return hook is not None and bool(getattr(hook, "calls", True))
