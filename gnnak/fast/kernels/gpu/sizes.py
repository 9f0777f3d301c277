"""A variant of `triton.jit` that does not recompile kernels when batch sizes change."""

from collections.abc import Callable
from inspect import signature
from typing import Any

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
        self._tensors: list[int] | None = None
        self._counts: list[int] = []
        self._others: list[int] = []
        self._versions: dict[tuple[Any, ...], Any] = {}

    def run(self, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        """Launch the kernel, or compile it alone if `warmup`."""
        if warmup or len(args) != len(self._names):
            return super().run(*args, grid=grid, warmup=warmup, **options)
        device = args[0].get_device()
        if device != torch.cuda.current_device():
            # Triton launches kernels on the current device.
            with torch.cuda.device(device):
                return self.run(*args, grid=grid, warmup=warmup, **options)
        key = self.version_key(args, options)
        version = self._versions.get(key)
        if version is None:
            version = super().run(*args, grid=grid, warmup=False, **options)
            self._versions[key] = version
        else:
            _launch(version, (*grid, 1, 1)[:3], device, args)
        return version

    def version_key(
        self, args: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Return a key that differs wherever Triton compiles another version.

        Args:
            args: The arguments of the kernel, a tensor first. An argument that is a
                tensor in the first call is a tensor in every call.
            options: Launch options such as the number of warps.
        """
        if self._tensors is None:
            self._divide(args)
        tensors = [args[i] for i in self._tensors or ()]
        return (
            tensors[0].get_device(),
            *options.values(),
            *[tensor.dtype for tensor in tensors],
            *[tensor.data_ptr() % 16 for tensor in tensors],
            *[args[i] < INT32 for i in self._counts],
            *[args[i] for i in self._others],
        )

    def _divide(self, args: tuple[Any, ...]) -> None:
        """Find which arguments are tensors, counts, or other numbers and constants."""
        are_tensors = [isinstance(value, Tensor) for value in args]
        places = list(enumerate(zip(are_tensors, self._names, strict=True)))
        rest = [(i, name in COUNTS) for i, (tensor, name) in places if not tensor]
        self._counts = [i for i, is_count in rest if is_count]
        self._others = [i for i, is_count in rest if not is_count]
        self._tensors = [i for i, tensor in enumerate(are_tensors) if tensor]


def _launch(
    version: Any, grid: tuple[int, int, int], device: int, args: tuple[Any, ...]
) -> None:
    """Launch a compiled kernel on the current stream of the current device.

    This does what Triton's `version[grid](*args)` does, except that it prepares nothing
    for hooks if none is set. Profilers set such hooks.

    Args:
        version: The compiled kernel.
        grid: Numbers of programs.
        device: Index of the current device.
        args: The arguments of the kernel.
    """
    runtime = triton.knobs.runtime
    if _is_set(runtime.launch_enter_hook) or _is_set(runtime.launch_exit_hook):
        version[grid](*args)
        return
    stream = torch._C._cuda_getCurrentRawStream(device)
    given = (version.function, version.packed_metadata, None, None, None)
    version.run(*grid, stream, *given, *args)


def _is_set(hook: Any) -> bool:
    """Return whether a hook of Triton is set: a function, or a chain of functions."""
    return hook is not None and bool(getattr(hook, "calls", True))
