"""Pad the rows of many batches at once, with one Triton kernel per tensor."""

from math import prod

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.tiles import cdiv
from gnnak.fast.layers.parts import Serves, implements

BLOCK = 1024
"""Number of consecutive output values that one Triton program writes."""


@implements("pad_rows")
def pad_rows(
    serves: Serves, value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    if not serves(value):
        return NotImplemented
    value = value.contiguous()
    out = value.new_empty(first.numel(), size, *value.shape[1:])
    width = prod(value.shape[1:])
    grid = (first.numel(), cdiv(max(size * width, 1), BLOCK))
    _pad_rows[grid](value, first, count, out, size, width, padding, BLOCK)
    return out


FIELDS = ["value", "first", "count", "out"]
"""Pointers whose alignment varies. Triton must not recompile for each alignment."""


@triton.jit(
    do_not_specialize=["size", "width", "padding"],
    do_not_specialize_on_alignment=FIELDS,
)
def _pad_rows(value, first, count, out, size, width, padding, BLOCK: tl.constexpr):
    batch = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside, real = place < size * width, place < tl.load(count + batch) * width
    found = tl.load(
        value + tl.load(first + batch) * width + place, mask=inside & real, other=0
    )
    found = tl.where(real, found, padding.to(found.dtype))
    tl.store(out + batch * size * width + place, found, mask=inside)
