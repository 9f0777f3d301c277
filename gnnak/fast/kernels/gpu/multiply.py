"""How a matrix product is divided into tiles, and the function that computes one tile.

The product is `h @ matrix.T`, which sums over the columns of `h` and `matrix`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime import driver

from gnnak.fast.kernels.gpu.normed import normed_tile
from gnnak.fast.kernels.gpu.tiles import (
    next_power_of_2,
    parts,
)

WARPS = 4
"""Warps per program."""
LEAST = 16
"""Smallest number of columns of a tile; tensor cores cannot multiply narrower tiles."""
PARTS = 2048
"""Approximate upper limit of the number of programs among which rows are divided."""
SHARED_MEMORY = 2**17
"""A GPU with at least this many bytes of shared memory per program has room for 4
pipeline stages."""


class Tile(NamedTuple):
    """Tile sizes of a matrix product: [rows, depth] times [depth, columns]."""

    rows: int
    """Rows of one tile of the result."""
    columns: int
    """Largest number of columns of one tile of the result."""
    depth: int
    """Tile size along the dimension that the product sums over (often `BLOCK_K`)."""
    stages: int
    """Triton's `num_stages`: how many loop iterations overlap in the pipeline."""


class Columns(NamedTuple):
    """How the columns of a result are divided among programs: wide and narrow tiles.

    Tile widths must be powers of two. For example, 144 columns become a tile of 128 and
    one of 16 columns. One program computes both tiles, so that it reads the left factor
    only once. A single tile of 256 columns would waste work on 112 columns that do not
    exist.
    """

    programs: int
    """How many programs share the columns of the result."""
    wide: int
    """Columns of the first tile of every program, for example 128."""
    narrow: int
    """Columns of the second tile, which the last program computes if `has_narrow`."""
    has_narrow: bool
    """Whether some columns at the end are left over for a second, narrower tile."""


def cut_columns(width: int, most: int) -> Columns:
    """Divide `width` columns of a result into tiles of at most `most` columns.

    Each program computes a tile of `Columns.wide` columns. If `Columns.has_narrow`, the
    last program also computes a tile of `Columns.narrow` columns for the rest.

    >>> cut_columns(144, most=128)
    Columns(programs=1, wide=128, narrow=16, has_narrow=True)
    >>> cut_columns(256, most=128)
    Columns(programs=2, wide=128, narrow=16, has_narrow=False)
    """
    wide = min(most, max(LEAST, 2 ** (max(width, 1).bit_length() - 1)))
    programs, rest = divmod(width, wide)
    if programs == 0 or rest > wide // 2:
        return Columns(programs + 1, wide, LEAST, False)
    narrow = max(LEAST, next_power_of_2(max(rest, 1)))
    return Columns(programs, wide, narrow, rest > 0)


def cut_rows(rows: int, tile: int) -> tuple[int, int]:
    """Divide `rows` rows of a result among programs, each with one or several tiles.

    Args:
        rows: Number of rows.
        tile: Rows per tile.

    Returns:
        The number of programs, and the number of tiles per program.
    """
    return parts(rows, tile, PARTS)


@cache
def _most_stages(device: torch.device) -> int:
    """Return how many pipeline stages fit into the shared memory of `device`."""
    if device.type != "cuda":
        return 4
    index = torch.cuda.current_device() if device.index is None else device.index
    found = driver.active.utils.get_device_properties(index)["max_shared_mem"]
    return 4 if found >= SHARED_MEMORY else 2


def launch_options(tile: Tile, device: torch.device) -> dict[str, int]:
    """Return keyword arguments for a kernel launch: `num_warps` and `num_stages`.

    The pipeline stages are those of `tile`, or fewer on a GPU with little shared
    memory.
    """
    stages = min(tile.stages, _most_stages(device))
    return {"num_warps": WARPS, "num_stages": stages}


def is_exact(values: Tensor) -> bool:
    """Whether a product with `values` runs on a GPU and must not use TF32.

    If True, callers use PyTorch's matrix product (cuBLAS), which is faster than a
    Triton kernel at full float32 precision.
    """
    return values.is_cuda and precision(values) == "ieee"


def precision(values: Tensor) -> str:
    """Return the argument `input_precision` of `tl.dot` for a product with `values`.

    This is "tf32" if `values` is float32 and PyTorch's setting
    `torch.backends.cuda.matmul.fp32_precision` is "tf32", else "ieee" (inputs are not
    rounded).
    """
    single, asked = values.dtype == torch.float, torch.backends.cuda.matmul
    return "tf32" if single and asked.fp32_precision == "tf32" else "ieee"


@triton.jit
def multiply(
    h,
    stride,
    scale,
    shift,
    matrix,
    matrix_row,
    matrix_column,
    row,
    wide,
    narrow,
    last,
    rows,
    depth,
    width,
    NORMED: tl.constexpr,
    MASKED: tl.constexpr,
    HAS_NARROW: tl.constexpr,
    PRECISION: tl.constexpr,
    K: tl.constexpr,
):
    """Compute a tile of `s @ matrix.T`, with s = ReLU(scale h + shift) or s = h.

    The rows of s are computed while they are loaded; they are never stored.

    Args:
        h: Pointer to the rows before norm and ReLU, [rows, depth].
        stride: Row stride of `h`.
        scale: Pointer to the norm's scale, [depth].
        shift: Pointer to the norm's shift, [depth].
        matrix: Pointer to the matrix that is transposed, [width, depth].
        matrix_row: Row stride of `matrix`.
        matrix_column: Column stride of `matrix`.
        row: Indices of the rows to compute.
        wide: Indices of the columns to compute as the first tile.
        narrow: Indices of the columns to compute as a second, narrower tile.
        last: Number of rows that are not padding; used with `MASKED`.
        rows: Number of rows of `h`.
        depth: Number of columns of `h` and `matrix`, over which the product sums.
        width: Number of columns of the result.
        NORMED: Whether s = ReLU(scale h + shift); if False, s = h.
        MASKED: Whether to set padding rows of s to zero.
        HAS_NARROW: Whether to compute the second tile.
        PRECISION: The argument `input_precision` of `tl.dot`.
        K: Number of columns of `h` and `matrix` that are loaded at a time.

    Returns:
        The first and the second tile of the product. The second tile is zero if
        `HAS_NARROW` is False.
    """
    of_wide = tl.zeros([row.shape[0], wide.shape[0]], dtype=h.dtype.element_ty)
    of_narrow = tl.zeros([row.shape[0], narrow.shape[0]], dtype=h.dtype.element_ty)
    for begin in range(0, depth, K):
        inner = begin + tl.arange(0, K)
        left = normed_tile(
            h,
            stride,
            scale,
            shift,
            h,
            row,
            inner,
            last,
            rows,
            depth,
            NORMED,
            False,
            MASKED,
        )
        from_inner = matrix + inner[:, None] * matrix_column
        there = (inner < depth)[:, None]
        right = tl.load(
            from_inner + wide[None, :] * matrix_row,
            mask=there & (wide < width)[None, :],
            other=0.0,
        )
        of_wide += tl.dot(left, right, input_precision=PRECISION).to(of_wide.dtype)
        if HAS_NARROW:
            right = tl.load(
                from_inner + narrow[None, :] * matrix_row,
                mask=there & (narrow < width)[None, :],
                other=0.0,
            )
            product = tl.dot(left, right, input_precision=PRECISION)
            of_narrow += product.to(of_narrow.dtype)
    return of_wide, of_narrow


@triton.jit
def columns_of(program, programs, width, WIDE: tl.constexpr, NARROW: tl.constexpr):
    """Return the indices of the columns that one program computes.

    Every program computes a tile of `WIDE` columns. The last program also computes a
    tile of `NARROW` columns. For the other programs, the indices of that second tile
    are `width`, so that masks exclude them.

    Args:
        program: Index of the program along the columns.
        programs: Number of programs along the columns.
        width: Number of columns of the result.
        WIDE: Number of columns of the first tile.
        NARROW: Number of columns of the second tile.

    Returns:
        The column indices of the first tile, and those of the second tile.
    """
    wide = program * WIDE + tl.arange(0, WIDE)
    narrow = programs * WIDE + tl.arange(0, NARROW)
    return wide, tl.where(program == programs - 1, narrow, width)
