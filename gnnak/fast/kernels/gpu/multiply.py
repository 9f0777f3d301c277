"""How products are cut into tiles, and the product of one tile."""

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
"""Warps that compute a tile."""
LEAST = 16
"""Columns that a tile has at least: what tensor cores multiply."""
PARTS = 2048
"""Parts of the rows, at most about, of which there are partial sums."""
SHARED_MEMORY = 2**17
"""Bytes that a program may have on a GPU where many pieces can be on their way."""


class Tile(NamedTuple):
    """How a product is cut."""

    rows: int
    """Rows of a tile of the result."""
    columns: int
    """Columns of it, at most."""
    depth: int
    """How much of what is summed over is read at a time."""
    stages: int
    """Pieces of this depth that are on their way from memory."""


class Columns(NamedTuple):
    """How the columns of a result are cut: wide tiles, and a narrow one at the end.

    144 columns are one tile of 128 and one of 16, both made by one program: what is
    multiplied is read once, and hardly anything is computed in vain.
    """

    programs: int
    """How many programs share the columns."""
    wide: int
    """Columns of a program's wide tile."""
    narrow: int
    """Columns of the last program's narrow tile."""
    has_narrow: bool
    """Whether there is one."""


def cut_columns(width: int, most: int) -> Columns:
    """Cut so many columns into tiles of at most so many.

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
    """Into how many parts rows are cut, and the tiles of each."""
    return parts(rows, tile, PARTS)


@cache
def _most_stages(device: torch.device) -> int:
    """Pieces that may be on their way: more do not fit into small GPUs."""
    if device.type != "cuda":
        return 4
    index = torch.cuda.current_device() if device.index is None else device.index
    found = driver.active.utils.get_device_properties(index)["max_shared_mem"]
    return 4 if found >= SHARED_MEMORY else 2


def launch_options(tile: Tile, device: torch.device) -> dict[str, int]:
    """What a launch is given beside its arguments."""
    stages = min(tile.stages, _most_stages(device))
    return {"num_warps": WARPS, "num_stages": stages}


def is_exact(values: Tensor) -> bool:
    """Whether these products are not for tensor cores: PyTorch's are faster then."""
    return values.is_cuda and precision(values) == "ieee"


def precision(values: Tensor) -> str:
    """How products round what they read, as PyTorch's are told to."""
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
    """Rows, normed as `normed_tile` says, times the matrix: two tiles of columns."""
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
    """A program's columns: those of its wide and of its narrow tile."""
    wide = program * WIDE + tl.arange(0, WIDE)
    narrow = programs * WIDE + tl.arange(0, NARROW)
    return wide, tl.where(program == programs - 1, narrow, width)
