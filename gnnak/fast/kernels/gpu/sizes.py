"""A `triton.jit` that does not recompile a kernel when batch sizes change."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import triton

COUNTS = {"m", "rows", "copies", "size", "count", "each", "half"}
"""Kernel arguments, by name, that are numbers of rows, groups or blocks of rows."""
INDICES = {
    "ptr",
    "order",
    "node",
    "rows",
    "key",
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
"""Kernel arguments, by name, that are pointers to index tensors and counts of a batch.

They may be slices of larger tensors, so their addresses have no fixed alignment."""


def for_all_sizes(kernel: Callable[..., None]) -> Any:
    """Apply `triton.jit`, without specialising on arguments that vary between batches.

    By default Triton compiles a separate version of a kernel for every combination of
    integers that are 1 or divisible by 16 and of pointers aligned to 16 bytes. That
    makes kernels faster when it concerns the number of columns and the rows of values.
    For the arguments in `COUNTS` and `INDICES` it would only cause recompilation in the
    middle of training, so they are excluded. (`steps`, the number of tiles per program,
    stays specialised: with a single step Triton removes the loop.)
    """
    names = [name for name in signature(kernel).parameters if name in COUNTS | INDICES]
    return triton.jit(do_not_specialize=names)(kernel)
