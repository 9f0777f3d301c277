"""Pad the rows of many batches at once, with one Triton kernel per tensor.

`pad_rows` replaces the function of the same name in `gnnak.loading.padding`, which
needs several PyTorch operations per tensor and explains the arguments.
"""

from math import prod

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.tiles import cdiv

BLOCK = 1024
"""Number of consecutive output values that one Triton program writes."""


def pad_rows(
    value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    """Return each batch's rows, padded to `size` rows by `padding`, [b, size, ...]."""
    value = value.contiguous()
    out = value.new_empty(first.numel(), size, *value.shape[1:])
    width = prod(value.shape[1:])
    grid = (first.numel(), cdiv(max(size * width, 1), BLOCK))
    _pad_rows[grid](value, first, count, out, size, width, padding, BLOCK)
    return out


FIELDS = ["value", "first", "count", "out"]
"""Kernel arguments that may point to slices of larger tensors: since the alignment
of slices varies, Triton must not compile one version per alignment."""


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
