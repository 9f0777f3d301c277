"""Tile sizes and launch grids: how kernels divide rows and columns among programs.

A group is a set of rows that a segment sum adds.
"""

import triton
import triton.language as tl

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


def wide_columns(width: int) -> int:
    """Return the number of columns per tile for kernels whose programs have one warp.

    It is `width` rounded up to a power of two (as Triton requires), from 16 to 256.
    """
    return min(256, max(16, triton.next_power_of_2(width)))


def columns(width: int) -> int:
    """Return the number of columns per tile for kernels whose tiles have several rows.

    It is `width` rounded up to a power of two (as Triton requires), from 16 to 64.
    """
    return min(64, max(16, triton.next_power_of_2(width)))


def tiles(rows: int, block: int, width: int) -> tuple[int, int]:
    """Return the launch grid of a kernel: the number of tiles along rows and columns.

    Args:
        rows: Number of rows of the tensor that the tiles cover.
        block: Rows per tile.
        width: Number of columns of the tensor; a tile has `columns(width)` columns.
    """
    return max(triton.cdiv(rows, block), 1), triton.cdiv(width, columns(width))


def parts(rows: int, block: int = SUMMED, most: int | None = None) -> tuple[int, int]:
    """Divide rows among programs that each sum their rows, tile by tile.

    Args:
        rows: Number of rows.
        block: Rows per tile.
        most: Approximate upper limit of the number of programs; None = `PARTS`.

    Returns:
        The number of programs, and the number of tiles per program.
    """
    steps = max(triton.cdiv(rows, block * (most or PARTS)), 1)
    return max(triton.cdiv(rows, block * steps), 1), steps


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
