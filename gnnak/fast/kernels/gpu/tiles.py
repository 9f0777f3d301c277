"""Tile sizes and launch grids: how kernels divide rows and columns among programs."""

import triton
import triton.language as tl

BLOCK = 32
"""Rows per tile in kernels that compute one output row per input row."""
GROUPS = 8
"""Groups that one program sums in parallel, one per row of its tile."""
EACH = 4
"""Groups that one program sums one after the other."""
SUMMED = 64
"""Rows per tile in kernels that compute partial sums over rows."""
PARTS = 512
"""Approximate upper limit of the number of partial sums."""


def wide_columns(width: int) -> int:
    """Return the tile width for programs of one warp: a whole row up to 256 columns.

    It is a power of two, as Triton requires.
    """
    return min(256, max(16, triton.next_power_of_2(width)))


def columns(width: int) -> int:
    """Return the tile width for tiles of several rows: a power of two from 16 to 64."""
    return min(64, max(16, triton.next_power_of_2(width)))


def tiles(rows: int, block: int, width: int) -> tuple[int, int]:
    """Return the launch grid for tiles of `block` rows that cover [rows, width]."""
    return max(triton.cdiv(rows, block), 1), triton.cdiv(width, columns(width))


def parts(rows: int, block: int = SUMMED, most: int | None = None) -> tuple[int, int]:
    """Divide rows among programs that each compute a partial sum.

    Args:
        rows: Number of rows.
        block: Rows per tile.
        most: Approximate upper limit of the number of programs; None = `PARTS`.

    Returns:
        The number of programs, and the number of tiles that each sums.
    """
    steps = max(triton.cdiv(rows, block * (most or PARTS)), 1)
    return max(triton.cdiv(rows, block * steps), 1), steps


@triton.jit
def load_index(order, k, live, ORDERED: tl.constexpr):
    """Load `order[k]`, or 0 where `live` is false; without `ORDERED` return k.

    In CSR form, `order` is the permutation that sorts rows by group; it is missing
    where rows are stored in that order.
    """
    if ORDERED:
        return tl.load(order + k, mask=live, other=0)
    return k
