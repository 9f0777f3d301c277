"""A variant of `triton.jit` that does not recompile kernels when batch sizes change."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import triton

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
}
"""Names of kernel arguments that are pointers whose alignment varies between batches.

Most point to index tensors of a batch, which may be slices of larger tensors."""


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
    return triton.jit(do_not_specialize=names)(kernel)
