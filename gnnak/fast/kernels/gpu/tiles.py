"""Tile sizes and launch grids: how kernels divide rows and columns among programs.

A group is a set of rows that a segment sum adds.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

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
    """Return the quotient, rounded up.

    `triton.cdiv` does the same, but takes some 7 us, as long as launching a kernel.
    """
    return -(-numerator // denominator)


def next_power_of_2(number: int) -> int:
    """Return the smallest power of two that is at least `number`, which is positive."""
    return 1 << (number - 1).bit_length()


def wide_columns(width: int) -> int:
    """Return the number of columns per tile for kernels whose programs have one warp.

    It is `width` rounded up to a power of two (as Triton requires), from 16 to 256.
    """
    return min(256, max(16, next_power_of_2(width)))


def columns(width: int) -> int:
    """Return the number of columns per tile for kernels whose tiles have several rows.

    It is `width` rounded up to a power of two (as Triton requires), from 16 to 64.
    """
    return min(64, max(16, next_power_of_2(width)))


def tiles(rows: int, block: int, width: int) -> tuple[int, int]:
    """Return the launch grid of a kernel: the number of tiles along rows and columns.

    Args:
        rows: Number of rows of the tensor that the tiles cover.
        block: Rows per tile.
        width: Number of columns of the tensor; a tile has `columns(width)` columns.
    """
    return max(cdiv(rows, block), 1), cdiv(width, columns(width))


def parts(rows: int, block: int = SUMMED, most: int | None = None) -> tuple[int, int]:
    """Divide rows among programs that each sum their rows, tile by tile.

    Args:
        rows: Number of rows.
        block: Rows per tile.
        most: Approximate upper limit of the number of programs; None = `PARTS`.

    Returns:
        The number of programs, and the number of tiles per program.
    """
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
    """Return `order[k]` if `ORDERED`, else k.

    Args:
        order: Pointer to row indices, for example the permutation that sorts rows by
            group; not read if `ORDERED` is False.
        k: The position to read.
        live: Mask: where False, `order` is not read and 0 is returned in its place.
        ORDERED: Whether there is a tensor `order`. It is False if rows are already
            sorted by group, so that the k-th row has the index k.
    """
    if ORDERED:
        return tl.load(order + k, mask=live, other=0)
    return k
