"""Add the partial sums of other kernels in a fixed order, for reproducible results."""

import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.sizes import for_all_sizes
from gnnak.fast.kernels.gpu.tiles import cdiv

AT_ONCE, NARROW, WARPS = 128, 8, 8
"""Launch constants of `_add_up`: rows and columns of a tile, and warps per program."""


def add_up(partial: Tensor) -> Tensor:
    """Return the sum of `partial`, a contiguous tensor, over its first axis.

    One program computes only a few columns, because typical tensors have few columns
    and many rows: fewer columns per program mean more programs.

    Args:
        partial: Partial sums, [number of partial sums, ...].
    """
    count, *shape = partial.shape
    out = partial.new_empty(*shape)
    width = out.numel()
    _add_up[(cdiv(width, NARROW),)](
        partial, out, count, width, AT_ONCE, NARROW, num_warps=WARPS
    )
    return out


@for_all_sizes
def _add_up(partial, out, count, width, PARTS: tl.constexpr, C: tl.constexpr):
    """Triton kernel of `add_up`: one program sums C columns over all rows.

    Arguments as in `add_up`; `out` receives the sums.
    """
    column = tl.program_id(0) * C + tl.arange(0, C)
    inside = column < width
    sums = tl.zeros([PARTS, C], dtype=out.dtype.element_ty)
    first = 0
    while first < count:
        part = first + tl.arange(0, PARTS)
        shown = (part < count)[:, None] & inside[None, :]
        place = part.to(tl.int64)[:, None] * width + column[None, :]
        sums += tl.load(partial + place, mask=shown, other=0.0)
        first += PARTS
    tl.store(out + column, tl.sum(sums, axis=0), mask=inside)
