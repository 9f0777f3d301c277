"""Tiles of a matrix product, and the device function that multiplies one tile."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime import driver

from gnnak.fast.kernels.gpu.normed import normed_tile
from gnnak.fast.kernels.gpu.tiles import parts

WARPS = 4
"""Warps per program."""
LEAST = 16
"""Smallest number of columns of a tile: the least that tensor cores multiply."""
PARTS = 2048
"""Approximate upper limit of the number of blocks of rows with partial sums."""
SHARED_MEMORY = 2**17
"""Bytes of shared memory per program from which on a GPU has room for 4 stages."""


class Tile(NamedTuple):
    """Tile sizes of a matrix product, [rows, depth] times [depth, columns]."""

    rows: int
    """Rows of the result per tile."""
    columns: int
    """Largest number of columns of the result per tile."""
    depth: int
    """Length of the slices of the summed axis that are loaded at a time."""
    stages: int
    """Slices in the software pipeline: how many are being loaded at the same time."""


class Columns(NamedTuple):
    """How programs divide the columns of a result: wide tiles and a narrow rest.

    Tile widths must be powers of two. 144 columns become a tile of 128 and one of 16,
    both computed by the same program: the left factor is read once, and less is
    computed for columns that do not exist than in a tile of 256.
    """

    programs: int
    """Number of programs along the columns."""
    wide: int
    """Columns of the wide tile that every program has."""
    narrow: int
    """Columns of the narrow tile that the last program may have in addition."""
    has_narrow: bool
    """Whether the last program has a narrow tile."""


def cut_columns(width: int, most: int) -> Columns:
    """Divide `width` columns into tiles of at most `most` columns.

    >>> cut_columns(144, most=128)
    Columns(programs=1, wide=128, narrow=16, has_narrow=True)
    >>> cut_columns(256, most=128)
    Columns(programs=2, wide=128, narrow=16, has_narrow=False)
    """
    wide = min(most, max(LEAST, 2 ** (max(width, 1).bit_length() - 1)))
    programs, rest = divmod(width, wide)
    if programs == 0 or rest > wide // 2:
        return Columns(programs + 1, wide, LEAST, False)
    narrow = max(LEAST, triton.next_power_of_2(max(rest, 1)))
    return Columns(programs, wide, narrow, rest > 0)


def cut_rows(rows: int, tile: int) -> tuple[int, int]:
    """Divide `rows` among programs that each compute several tiles.

    Returns:
        The number of programs, and the number of tiles, of `tile` rows, of each.
    """
    return parts(rows, tile, PARTS)


@cache
def _most_stages(device: torch.device) -> int:
    """Return the largest `Tile.stages` for which a GPU has enough shared memory."""
    if device.type != "cuda":
        return 4
    index = torch.cuda.current_device() if device.index is None else device.index
    found = driver.active.utils.get_device_properties(index)["max_shared_mem"]
    return 4 if found >= SHARED_MEMORY else 2


def launch_options(tile: Tile, device: torch.device) -> dict[str, int]:
    """Return the keyword arguments of a kernel launch: warps and pipeline stages."""
    stages = min(tile.stages, _most_stages(device))
    return {"num_warps": WARPS, "num_stages": stages}


def is_exact(values: Tensor) -> bool:
    """Whether products must be exact float32 on a GPU, without TF32 tensor cores.

    PyTorch's matrix product (cuBLAS) is faster than a Triton kernel in that case.
    """
    return values.is_cuda and precision(values) == "ieee"


def precision(values: Tensor) -> str:
    """Return the `input_precision` of `tl.dot`, by PyTorch's own setting.

    "tf32" if `torch.backends.cuda.matmul.fp32_precision` allows it and the tensor is
    float32, else "ieee" (no rounding of the inputs).
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
    """Multiply rows of `h`, normed as they are loaded, with columns of `matrix^T`.

    Args:
        h: Pointer to the left factor, [rows, depth].
        stride: Stride of its rows.
        scale: Pointer to the norm's scale, [depth].
        shift: Pointer to the norm's shift, [depth].
        matrix: Pointer to the right factor before its transposition, [width, depth].
        matrix_row: Stride of its rows.
        matrix_column: Stride of its columns.
        row: The rows of the tile.
        wide: The columns of the wide tile.
        narrow: The columns of the narrow tile.
        last: Number of rows that are not padding, for `MASKED`.
        rows: Number of rows.
        depth: Length of the summed axis.
        width: Number of columns of the result.
        NORMED: Whether to norm `h`, as `normed_tile` does.
        MASKED: Whether normed padding rows are zero.
        HAS_NARROW: Whether there is a narrow tile.
        PRECISION: The `input_precision` of `tl.dot`.
        K: Length of the slices of the summed axis.

    Returns:
        The wide and the narrow tile of the product, in registers.
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
    """Return the columns of a program's wide and narrow tile.

    Only the last program has a narrow tile; the others get columns outside of the
    tensor, which are masked.
    """
    wide = program * WIDE + tl.arange(0, WIDE)
    narrow = programs * WIDE + tl.arange(0, NARROW)
    return wide, tl.where(program == programs - 1, narrow, width)
