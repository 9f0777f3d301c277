"""How work is cut into tiles of rows and columns."""

from typing import NamedTuple

import triton

BLOCK = 32
"""Rows of a tile in kernels that run along all rows."""
GROUPS = 8
"""Groups that one program sums up side by side."""
SUMMED = 64
"""Rows of a tile in kernels that sum rows up."""
PARTS = 512
"""Programs, at most about, whose partial sums are then added up."""


class Cut(NamedTuple):
    """How a tensor is cut into tiles, one for each program."""

    rows: int
    """Rows of a tile."""
    most: int
    """Columns of it, at most."""
    warps: int
    """Threads of a program, in 32s."""

    def tile(self, width: int) -> tuple[int, int]:
        """Rows and columns of a tile of so wide a tensor, both powers of two."""
        return self.rows, min(self.most, max(16, triton.next_power_of_2(width)))

    def grid(self, rows: int, width: int) -> tuple[int, int]:
        """The grid of programs for a tensor [rows, width]."""
        block, wide = self.tile(width)
        return max(triton.cdiv(rows, block), 1), triton.cdiv(width, wide)


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
