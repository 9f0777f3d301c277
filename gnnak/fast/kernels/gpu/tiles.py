"""How work is cut into tiles of rows and columns."""

import triton
import triton.language as tl

BLOCK = 32
"""Rows of a tile in kernels that run along all rows."""
GROUPS = 8
"""Groups that one program sums up side by side."""
EACH = 4
"""Groups that one program sums up one after the other."""
SUMMED = 64
"""Rows of a tile in kernels that sum rows up."""
PARTS = 512
"""Programs, at most about, whose partial sums are then added up."""


def whole(width: int) -> int:
    """Columns of a tile that has as many of a row as there is room for."""
    return min(256, max(16, triton.next_power_of_2(width)))


def columns(width: int) -> int:
    """Columns of a tile, a power of two."""
    return min(64, max(16, triton.next_power_of_2(width)))


def tiles(rows: int, block: int, width: int) -> tuple[int, int]:
    """The grid of programs for a tensor [rows, width]."""
    return max(triton.cdiv(rows, block), 1), triton.cdiv(width, columns(width))


def parts(rows: int, block: int = SUMMED, most: int | None = None) -> tuple[int, int]:
    """Into how many parts rows are cut for partial sums, and the tiles of each.

    Args:
        rows: The rows.
        block: Rows of a tile.
        most: How many parts there may be, about; `PARTS` if not given.
    """
    steps = max(triton.cdiv(rows, block * (most or PARTS)), 1)
    return max(triton.cdiv(rows, block * steps), 1), steps


@triton.jit
def read_place(order, k, live, ORDERED: tl.constexpr):
    """Entry k of an order, 0 where it is not live; k itself if there is no order."""
    if ORDERED:
        return tl.load(order + k, mask=live, other=0)
    return k
