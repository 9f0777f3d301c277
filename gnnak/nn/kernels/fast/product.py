"""Products of rows that are normed as they are read; moments of what is written."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime import driver

from gnnak.nn.kernels.composed import compose_norm_linear
from gnnak.nn.kernels.fast.norm import norm_act
from gnnak.nn.kernels.fast.normed import normed_tile
from gnnak.nn.kernels.fast.statistics import with_rows
from gnnak.nn.kernels.fast.tiles import parts
from gnnak.nn.kernels.records import Constants, Moments


class Tile(NamedTuple):
    """How a product is cut."""

    rows: int
    """Rows of a tile of the result."""
    columns: int
    """Columns of it."""
    depth: int
    """How much of what is summed over is read at a time."""
    warps: int
    """Warps that compute a tile."""


SMALL, LARGE = Tile(64, 64, 32, 4), Tile(128, 128, 32, 8)
"""Large tiles read less again and again; small ones keep a GPU busy with few rows."""
MANY_ROWS = 2**16
"""From how many rows on tiles are large."""
SHARED_MEMORY = 2**17
"""Bytes that a program may have on a GPU where three tiles can be on their way."""


def tile_of(rows: int, width: int) -> Tile:
    """How a product of so many rows, with so many columns in its result, is cut."""
    return LARGE if rows >= MANY_ROWS and width > SMALL.columns else SMALL


@cache
def _stages(device: torch.device) -> int:
    """Tiles that are on their way from memory."""
    if device.type != "cuda":
        return 3
    index = torch.cuda.current_device() if device.index is None else device.index
    found = driver.active.utils.get_device_properties(index)["max_shared_mem"]
    return 3 if found >= SHARED_MEMORY else 2


def launch_options(tile: Tile, device: torch.device) -> dict[str, int]:
    """What a launch is given beside its arguments."""
    return {"num_warps": tile.warps, "num_stages": _stages(device)}


def is_exact(values: Tensor) -> bool:
    """Whether these products are not for tensor cores: PyTorch's are faster then."""
    return values.is_cuda and precision(values) == "ieee"


def precision(values: Tensor) -> str:
    """How products round what they read, as PyTorch's are told to."""
    single, asked = values.dtype == torch.float, torch.backends.cuda.matmul
    return "tf32" if single and asked.fp32_precision == "tf32" else "ieee"


def norm_linear(
    h: Tensor,
    k: Constants | None,
    residual: Tensor | None,
    matrix: Tensor,
    offset: Tensor | None,
    real: Tensor | None,
) -> tuple[Tensor, Moments | None]:
    """`norm_act(h, k, True, residual) matrix^T + offset`, and its moments.

    Arguments as of the plain kernel.
    """
    if is_exact(h):
        return compose_norm_linear(norm_act, h, k, residual, matrix, offset), None
    rows, width = h.size(0), matrix.size(0)
    tile = tile_of(rows, width)
    count, steps = parts(rows, tile.rows)
    out, partial = h.new_empty(rows, width), h.new_empty(2, count, width)
    masked = k is not None and k.of_batch and k.real is not None
    _product[(triton.cdiv(width, tile.columns), count)](
        h,
        h.stride(0),
        h if k is None else k.scale,
        h if k is None else k.shift,
        h if residual is None else residual.contiguous(),
        h if real is None else real,
        matrix,
        *matrix.stride(),
        matrix if offset is None else offset,
        out,
        partial,
        rows,
        h.size(1),
        width,
        steps,
        k is not None,
        residual is not None,
        masked,
        offset is not None,
        real is not None,
        precision(h),
        tile.rows,
        tile.depth,
        tile.columns,
        **launch_options(tile, h.device),
    )
    return out, Moments(partial, steps * tile.rows)


@triton.jit
def _product(
    h,
    stride,
    scale,
    shift,
    residual,
    real,
    matrix,
    matrix_row,
    matrix_column,
    offset,
    out,
    partial,
    rows,
    depth,
    width,
    steps,
    NORMED: tl.constexpr,
    ADDS: tl.constexpr,
    MASKED: tl.constexpr,
    OFFSET: tl.constexpr,
    PADDED: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
    K: tl.constexpr,
    C: tl.constexpr,
):
    """Products of each part's rows; their mean, and sum of squares around it."""
    column = tl.program_id(0) * C + tl.arange(0, C)
    part, count = tl.program_id(1), tl.num_programs(1)
    inside = column < width
    last = tl.load(real).to(tl.int32) if PADDED else rows
    mean = tl.zeros([C], dtype=out.dtype.element_ty)
    around = tl.zeros([C], dtype=out.dtype.element_ty)
    seen = 0
    for step in range(steps):
        first = (part * steps + step) * BLOCK
        row = first + tl.arange(0, BLOCK)
        value = tl.zeros([BLOCK, C], dtype=out.dtype.element_ty)
        for begin in range(0, depth, K):
            inner = begin + tl.arange(0, K)
            left = normed_tile(
                h,
                stride,
                scale,
                shift,
                residual,
                row,
                inner,
                last,
                rows,
                depth,
                NORMED,
                ADDS,
                MASKED,
            )
            right = tl.load(
                matrix + column[None, :] * matrix_row + inner[:, None] * matrix_column,
                mask=(inner < depth)[:, None] & inside[None, :],
                other=0.0,
            )
            value += tl.dot(left, right, input_precision=PRECISION).to(value.dtype)
        if OFFSET:
            value += tl.load(offset + column, mask=inside, other=0.0)[None, :]
        place = row.to(tl.int64)[:, None] * width + column[None, :]
        tl.store(out + place, value, mask=(row < rows)[:, None] & inside[None, :])
        new = tl.maximum(tl.minimum(last - first, BLOCK), 0)
        shown = (row < last)[:, None]
        mean, around = with_rows(mean, around, seen, value, shown, new)
        seen += new
    tl.store(partial + part * width + column, mean, mask=inside)
    tl.store(partial + (count + part) * width + column, around, mask=inside)
