"""Kernels that are not compiled anew whenever a batch has another size."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import triton

COUNTS = {"m", "rows", "copies", "size", "count", "each", "half"}
"""How kernels call what follows from numbers of rows, of groups and of parts."""
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
"""How they call what they are told of a batch, which may begin anywhere in memory."""


def for_all_sizes(kernel: Callable[..., None]) -> Any:
    """`triton.jit`, but what differs from batch to batch is not compiled in.

    Triton makes another kernel where a number is 1 or a multiple of 16, or memory
    begins at a multiple of 16. That pays for widths and rows of values; for how many
    rows there are, and for indices, it would be one more compilation whenever a batch
    happens to be the first of its kind. (How many `steps` a program takes is compiled
    in: a single one needs no loop, and few sizes are apart in that.)
    """
    names = [name for name in signature(kernel).parameters if name in COUNTS | INDICES]
    return triton.jit(do_not_specialize=names)(kernel)
