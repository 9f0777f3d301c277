"""Tile sizes, launch grids, a `triton.jit` that rarely recompiles, and final sums."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime.jit import JITFunction

from gnnak.optional import interprets_triton

BLOCK = 32
"""Rows per tile in kernels that compute one output row per input row."""
GROUPS = 8
"""Number of segment sums that one program computes in parallel, one per tile row."""
EACH = 4
"""Number of segment sums that one program computes one after the other."""
SUMMED = 64
"""Rows per tile in kernels that compute partial sums over rows."""
PARTS = 512
"""Approximate upper limit of the number of programs that compute partial sums."""


def cdiv(numerator: int, denominator: int) -> int:
    """Return the quotient, rounded up; faster than `triton.cdiv`, which takes 7 us."""
    return -(-numerator // denominator)


def next_power_of_2(number: int) -> int:
    return 1 << (number - 1).bit_length()


def wide_columns(width: int) -> int:
    """Return the width of a tile for one warp: a power of two from 16 to 256."""
    return min(256, max(16, next_power_of_2(width)))


def columns(width: int) -> int:
    """Return the width of a tile with several rows: a power of two from 16 to 64."""
    return min(64, max(16, next_power_of_2(width)))


def tiles(rows: int, block: int, width: int) -> tuple[int, int]:
    """Return the launch grid: numbers of tiles along rows and along columns."""
    return max(cdiv(rows, block), 1), cdiv(width, columns(width))


def parts(rows: int, block: int = SUMMED, most: int | None = None) -> tuple[int, int]:
    """Divide rows into tiles; return numbers of programs and of tiles per program."""
    steps = max(cdiv(rows, block * (most or PARTS)), 1)
    return max(cdiv(rows, block * steps), 1), steps


def sum_dtype(values: Tensor) -> torch.dtype:
    """Return the dtype in which rows of `values` are summed: float64 or float32."""
    return torch.promote_types(values.dtype, torch.float)


@triton.jit
def widened(value):
    """Return a float16 or bfloat16 value as float32, and any other value unchanged."""
    if value.dtype == tl.float64:
        return value
    return value.to(tl.float32)


@triton.jit
def load_index(order, k, live, ORDERED: tl.constexpr):
    """Return `order[k]` if `ORDERED`, else `k`; `order` is read only where `live`."""
    if ORDERED:
        return tl.load(order + k, mask=live, other=0)
    return k


COUNTS = {"m", "rows", "copies", "size", "size_2", "count", "each", "half"}
"""Integer kernel arguments that vary from batch to batch: numbers of rows or groups."""
INDICES = {
    "ptr", "ptr_2", "order", "order_2", "node", "rows", "key", "key_2", "source",
    "target", "edge", "end", "index", "centroid", "subgraph", "real", "weight",
    "tracked", "start", "nodes", "position", "rank",
}  # fmt: skip
"""Kernel arguments that point to slices of index tensors: their alignment varies."""
INT32 = 2**31
"""Triton passes integers below this size as 32-bit integers."""


def for_all_sizes(kernel: Callable[..., None]) -> Any:
    """Apply `triton.jit`, without specialising on arguments that vary between batches.

    By default, Triton compiles a kernel again if an integer is 1 or divisible by 16, or
    if a pointer is aligned. This could happen in the middle of training.
    """
    names = [name for name in signature(kernel).parameters if name in COUNTS | INDICES]
    if interprets_triton():
        return triton.jit(do_not_specialize=names)(kernel)
    return CachedKernel(kernel, do_not_specialize=names)


class CachedKernel(JITFunction):
    """A Triton kernel that looks up its compiled version with a short, fast key."""

    def __init__(self, kernel: Callable[..., None], **options: Any) -> None:
        super().__init__(kernel, **options)
        self._names = list(signature(kernel).parameters)
        self._tensors: list[int] | None = None
        self._counts: list[int] = []
        self._others: list[int] = []
        self._versions: dict[tuple[Any, ...], Any] = {}

    def run(self, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
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
        """Return a key that differs whenever Triton would compile another version."""
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
        are_tensors = [isinstance(value, Tensor) for value in args]
        places = list(enumerate(zip(are_tensors, self._names, strict=True)))
        rest = [(i, name in COUNTS) for i, (tensor, name) in places if not tensor]
        self._counts = [i for i, is_count in rest if is_count]
        self._others = [i for i, is_count in rest if not is_count]
        self._tensors = [i for i, tensor in enumerate(are_tensors) if tensor]


def _launch(
    version: Any, grid: tuple[int, int, int], device: int, args: tuple[Any, ...]
) -> None:
    """Launch a compiled kernel on the current stream, faster than Triton itself."""
    runtime = triton.knobs.runtime
    if _is_set(runtime.launch_enter_hook) or _is_set(runtime.launch_exit_hook):
        version[grid](*args)
        return
    stream = torch._C._cuda_getCurrentRawStream(device)
    function, metadata = version.function, version.packed_metadata
    version.run(*grid, stream, function, metadata, None, None, None, *args)


def _is_set(hook: Any) -> bool:
    return hook is not None and bool(getattr(hook, "calls", True))


AT_ONCE, NARROW, WARPS = 128, 8, 8
"""Rows and columns of a tile, and warps per program, in `_add_up`."""


def add_up(partial: Tensor) -> Tensor:
    """Return the sum of `partial`, a contiguous tensor, over its first axis."""
    count, *shape = partial.shape
    out = partial.new_empty(*shape)
    width = out.numel()
    _add_up[(cdiv(width, NARROW),)](
        partial, out, count, width, AT_ONCE, NARROW, num_warps=WARPS
    )
    return out


@for_all_sizes
def _add_up(partial, out, count, width, PARTS: tl.constexpr, C: tl.constexpr):
    column = tl.program_id(0) * C + tl.arange(0, C)
    inside = column < width
    sums = tl.zeros([PARTS, C], dtype=out.dtype.element_ty)
    first = 0
    while first < count:
        part = first + tl.arange(0, PARTS)
        shown = (part < count)[:, None] & inside[None, :]
        place = part.to(tl.int64)[:, None] * width + column[None, :]
        sums += tl.load(partial + place, mask=shown, other=0.0)
        first += PARTS
    tl.store(out + column, tl.sum(sums, axis=0), mask=inside)
