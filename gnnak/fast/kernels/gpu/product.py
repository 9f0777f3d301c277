"""Batch norm, ReLU and matrix product, and their gradients, in Triton."""

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime import driver

from gnnak.fast.kernels import plain
from gnnak.fast.kernels.gpu.norm import (
    add_rows,
    load_columns,
    norm_act,
    norm_grad_rows,
    norm_grad_sums,
    normed_tile,
)
from gnnak.fast.kernels.gpu.tiles import (
    add_up,
    cdiv,
    for_all_sizes,
    next_power_of_2,
    parts,
    sum_dtype,
    widened,
)
from gnnak.fast.kernels.records import CentroidRows, Moments, NormConstants
from gnnak.optional import interprets_triton

WARPS = 4
LEAST = 16
"""Smallest number of columns of a tile; tensor cores cannot multiply narrower tiles."""
PARTS = 2048
"""Approximate upper limit of the number of programs among which rows are divided."""
SHARED_MEMORY = 2**17
"""Shared memory, in bytes, that a GPU needs for 4 pipeline stages instead of 2."""


class Tile(NamedTuple):
    """Tile sizes of a matrix product: [rows, depth] times [depth, columns]."""

    rows: int
    columns: int
    """Largest number of columns of one tile of the result."""
    depth: int
    """Tile size along the dimension that the product sums over (often `BLOCK_K`)."""
    stages: int
    """Triton's `num_stages`: how many loop iterations overlap in the pipeline."""


class Columns(NamedTuple):
    """How the columns of a result are divided into tiles, such as 144 = 128 + 16."""

    programs: int
    """How many programs share the columns of the result."""
    wide: int
    """Number of columns of the first tile of every program, for example 128."""
    narrow: int
    """If `has_narrow`, the number of columns of the second tile of the last program."""
    has_narrow: bool
    """Whether some columns at the end are left for a second, narrower tile."""


def cut_columns(width: int, most: int) -> Columns:
    """Divide `width` columns of a result into tiles of at most `most` columns.

    >>> cut_columns(144, most=128)
    Columns(programs=1, wide=128, narrow=16, has_narrow=True)
    """
    wide = min(most, max(LEAST, 2 ** (max(width, 1).bit_length() - 1)))
    programs, rest = divmod(width, wide)
    if programs == 0 or rest > wide // 2:
        return Columns(programs + 1, wide, LEAST, False)
    narrow = max(LEAST, next_power_of_2(max(rest, 1)))
    return Columns(programs, wide, narrow, rest > 0)


@cache
def _most_stages(device: torch.device) -> int:
    """Return how many pipeline stages fit into the shared memory of `device`."""
    if device.type != "cuda":
        return 4
    index = torch.cuda.current_device() if device.index is None else device.index
    found = driver.active.utils.get_device_properties(index)["max_shared_mem"]
    return 4 if found >= SHARED_MEMORY else 2


def launch_options(tile: Tile, device: torch.device) -> dict[str, int]:
    stages = min(tile.stages, _most_stages(device))
    return {"num_warps": WARPS, "num_stages": stages}


def is_separate(values: Tensor) -> bool:
    """Return whether cuBLAS and separate kernels are faster than one fused kernel."""
    if not values.is_cuda or values.dtype == torch.double or _is_tf32(values):
        return False
    return values.dtype == torch.float or values.size(0) >= MANY_ROWS


def precision(values: Tensor) -> str:
    """Return `input_precision` for `tl.dot`: "tf32" if PyTorch allows it, or "ieee"."""
    return "tf32" if _is_tf32(values) else "ieee"


def _is_tf32(values: Tensor) -> bool:
    asked = torch.backends.cuda.matmul.fp32_precision
    return values.dtype == torch.float and asked == "tf32"


INTERPRETED = tl.constexpr(interprets_triton())


@triton.jit
def dot(left, right, PRECISION: tl.constexpr):
    """Multiply two tiles; Triton's interpreter has no bfloat16, and uses float32."""
    if INTERPRETED:
        left, right = widened(left), widened(right)
    return tl.dot(left, right, input_precision=PRECISION)


@triton.jit
def multiply(
    h, stride, scale, shift, matrix, matrix_row, matrix_column, row, wide, narrow, last,
    rows, depth, width,
    NORMED: tl.constexpr, MASKED: tl.constexpr, HAS_NARROW: tl.constexpr,
    PRECISION: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Compute two tiles of `s @ matrix.T`, at the columns `wide` and `narrow`.

    s is ReLU(scale h + shift) if `NORMED`, else h. The second tile is zero unless
    `HAS_NARROW`. The product sums over `depth` columns, `K` at a time.
    """
    kind = h.dtype.element_ty
    of_wide = widened(tl.zeros([row.shape[0], wide.shape[0]], dtype=kind))
    of_narrow = widened(tl.zeros([row.shape[0], narrow.shape[0]], dtype=kind))
    for begin in range(0, depth, K):
        inner = begin + tl.arange(0, K)
        left = normed_tile(
            h, stride, scale, shift, h, row, inner, last, rows, depth, NORMED, False,
            MASKED,
        ).to(kind)  # fmt: skip
        from_inner = matrix + inner[:, None] * matrix_column
        there = (inner < depth)[:, None]
        right = tl.load(
            from_inner + wide[None, :] * matrix_row,
            mask=there & (wide < width)[None, :],
            other=0.0,
        )
        of_wide += dot(left, right, PRECISION).to(of_wide.dtype)
        if HAS_NARROW:
            right = tl.load(
                from_inner + narrow[None, :] * matrix_row,
                mask=there & (narrow < width)[None, :],
                other=0.0,
            )
            of_narrow += dot(left, right, PRECISION).to(of_narrow.dtype)
    return of_wide, of_narrow


@triton.jit
def columns_of(program, programs, width, WIDE: tl.constexpr, NARROW: tl.constexpr):
    """Return the columns of a program's wide tile and of its narrow tile, if any."""
    wide = program * WIDE + tl.arange(0, WIDE)
    narrow = programs * WIDE + tl.arange(0, NARROW)
    return wide, tl.where(program == programs - 1, narrow, width)


FEW, MANY = Tile(128, 128, 32, 3), Tile(64, 128, 16, 4)
"""Tile sizes for products with few and with many rows. With many rows, there are enough
programs to hide memory latency, so small tiles suffice."""
MANY_ROWS = 2**16
"""Products with at least this many rows use the tile `MANY`, others the tile `FEW`."""


def norm_linear(
    h: Tensor,
    k: NormConstants | None,
    matrix: Tensor,
    offset: Tensor | None,
    real: Tensor | None,
) -> tuple[Tensor, Moments | None]:
    """Compute `plain.norm_linear`; if fused, also return `Moments` of the output."""
    if is_separate(h):
        return plain.norm_linear(h, k, matrix, offset, real, norm_act)
    rows, width, matrix = h.size(0), matrix.size(0), matrix.to(h.dtype)
    tile = MANY if rows >= MANY_ROWS else FEW
    programs, *tiles = cut_columns(width, tile.columns)
    count, steps = parts(rows, tile.rows, PARTS)
    out = h.new_empty(rows, width)
    partial = h.new_empty(2, count, width, dtype=sum_dtype(h))
    masked = k is not None and k.of_batch and k.real is not None
    _product[(programs, count)](
        h, h.stride(0),
        h if k is None else k.scale,
        h if k is None else k.shift,
        h if real is None else real,
        matrix, *matrix.stride(),
        matrix if offset is None else offset,
        out, partial, rows, h.size(1), width, steps,
        k is not None,
        masked,
        offset is not None,
        real is not None,
        precision(h), tile.rows, tile.depth, *tiles, **launch_options(tile, h.device),
    )  # fmt: skip
    return out, Moments(partial, steps * tile.rows)


@for_all_sizes
def _product(
    h, stride, scale, shift, real, matrix, matrix_row, matrix_column, offset, out,
    partial, rows, depth, width, steps,
    NORMED: tl.constexpr, MASKED: tl.constexpr, OFFSET: tl.constexpr,
    PADDED: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr, K: tl.constexpr,
    WIDE: tl.constexpr, NARROW: tl.constexpr, HAS_NARROW: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    wide, narrow = columns_of(program, programs, width, WIDE, NARROW)
    part, count = tl.program_id(1), tl.num_programs(1)
    last = tl.load(real).to(tl.int32) if PADDED else rows
    mean = tl.zeros([WIDE], dtype=partial.dtype.element_ty)
    m2 = tl.zeros([WIDE], dtype=partial.dtype.element_ty)
    narrow_mean = tl.zeros([NARROW], dtype=partial.dtype.element_ty)
    narrow_m2 = tl.zeros([NARROW], dtype=partial.dtype.element_ty)
    seen = 0
    for step in range(steps):
        first = (part * steps + step) * BLOCK
        row = first + tl.arange(0, BLOCK)
        value, of_narrow = multiply(
            h, stride, scale, shift, matrix, matrix_row, matrix_column, row, wide,
            narrow, last, rows, depth, width, NORMED, MASKED, HAS_NARROW, PRECISION, K,
        )  # fmt: skip
        new = tl.maximum(tl.minimum(last - first, BLOCK), 0)
        shown = (row < last)[:, None]
        value = store_tile(value, offset, out, row, wide, rows, width, OFFSET)
        mean, m2 = add_rows(mean, m2, seen, value, shown, new)
        if HAS_NARROW:
            value = store_tile(of_narrow, offset, out, row, narrow, rows, width, OFFSET)
            narrow_mean, narrow_m2 = add_rows(
                narrow_mean, narrow_m2, seen, value, shown, new
            )
        seen += new
    means, m2s = partial + part * width, partial + (count + part) * width
    tl.store(means + wide, mean, mask=wide < width)
    tl.store(m2s + wide, m2, mask=wide < width)
    if HAS_NARROW:
        tl.store(means + narrow, narrow_mean, mask=narrow < width)
        tl.store(m2s + narrow, narrow_m2, mask=narrow < width)


@triton.jit
def store_tile(value, offset, out, row, column, rows, width, OFFSET: tl.constexpr):
    """Add the Linear's bias to a tile of the product, store the tile, and return it."""
    inside = column < width
    if OFFSET:
        value += tl.load(offset + column, mask=inside, other=0.0)[None, :]
    place = row.to(tl.int64)[:, None] * width + column[None, :]
    tl.store(out + place, value, mask=(row < rows)[:, None] & inside[None, :])
    return value


TILE = Tile(128, 64, 32, 3)
"""Tile sizes of `grad @ matrix`; narrow, as the kernel also keeps sums in registers."""


def norm_linear_backward(
    grad: Tensor,
    h: Tensor,
    k: NormConstants,
    s: Tensor | None,
    matrix: Tensor,
    more: CentroidRows | None,
    into: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    grad = grad.contiguous()
    if is_separate(h):
        grad_s = grad @ matrix.to(grad.dtype)
        if more is not None:
            grad_s.index_add_(0, more.centroid, more.values.to(grad.dtype))
        sums = norm_grad_sums(grad_s, h, k, True)
    else:
        grad_s, sums = _grad_rows(grad, h, k, matrix, more)
    recomputed = None
    if s is None:
        s = recomputed = h.new_empty(h.shape)
    norm_grad_rows(grad_s, h, k, sums, True, into, recomputed)
    # A Triton product that sums over the rows of both factors is slow: use PyTorch.
    return sums[1], sums[0], grad_s, grad.t() @ s


def _grad_rows(
    grad: Tensor, h: Tensor, k: NormConstants, matrix: Tensor, more: CentroidRows | None
) -> tuple[Tensor, Tensor]:
    """Return gradients of Linear input, [m, c], and of norm bias and weight, [2, c]."""
    rows, width = h.shape
    count, steps = parts(rows, TILE.rows, PARTS)
    grad_s = h.new_empty(rows, width)
    partial = h.new_empty(count, 2, width, dtype=sum_dtype(h))
    # The product sums over the rows of `matrix`. A transposed copy has the summed axis
    # contiguous in memory, which loads faster.
    matrix = h.new_empty(width, grad.size(1)).copy_(matrix.t())
    added = (grad, grad, grad) if more is None else more
    _product_to_rows[(cdiv(width, TILE.columns), count)](
        grad, matrix, h, h.stride(0), *k[:4], *added, added[0].stride(0), grad_s,
        partial, rows, grad.size(1), width, steps,
        more is not None,
        precision(h), TILE.rows, TILE.depth, TILE.columns,
        **launch_options(TILE, h.device),
    )  # fmt: skip
    return grad_s, add_up(partial)


@for_all_sizes
def _product_to_rows(
    grad, matrix, h, stride, scale, shift, mean, rstd, added, centroid, subgraph,
    added_stride, grad_s, partial, rows, depth, width, steps,
    ADDS: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr, K: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    """Compute a block of the Linear's input gradient; add up gradients of the norm."""
    column = tl.program_id(0) * C + tl.arange(0, C)
    part, inside = tl.program_id(1), column < width
    scale_ = load_columns(scale, column, inside)
    shift_ = load_columns(shift, column, inside)
    mean_ = load_columns(mean, column, inside)
    rstd_ = load_columns(rstd, column, inside)
    sum_grad = tl.zeros([C], dtype=partial.dtype.element_ty)
    sum_grad_normed = tl.zeros([C], dtype=partial.dtype.element_ty)
    for step in range(steps):
        row = (part * steps + step) * BLOCK + tl.arange(0, BLOCK)
        back, _ = multiply(
            grad, depth, scale, shift, matrix, depth, 1, row, column, column, rows,
            rows, depth, width, False, False, False, PRECISION, K,
        )  # fmt: skip
        there = row < rows
        shown = there[:, None] & inside[None, :]
        from_row = row.to(tl.int64)[:, None]
        if ADDS:
            of = tl.load(subgraph + row, mask=there, other=0).to(tl.int64)
            owns = there & (tl.load(centroid + of, mask=there, other=-1) == row)
            back += tl.load(
                added + of[:, None] * added_stride + column[None, :],
                mask=owns[:, None] & inside[None, :],
                other=0.0,
            )
        tl.store(grad_s + from_row * width + column[None, :], back, mask=shown)
        value = tl.load(h + from_row * stride + column[None, :], mask=shown, other=0.0)
        back = tl.where(value * scale_ + shift_ > 0, back, 0.0)
        sum_grad += tl.sum(back, axis=0)
        sum_grad_normed += tl.sum(back * ((value - mean_) * rstd_), axis=0)
    tl.store(partial + 2 * part * width + column, sum_grad, mask=inside)
    tl.store(partial + (2 * part + 1) * width + column, sum_grad_normed, mask=inside)
