"""Pad tensors of many batches at once, with one Triton kernel per tensor.

Each public function replaces the function of the same name in `gnnak.loading.padding`,
which needs several PyTorch operations per tensor.
"""

from math import prod

import triton
import triton.language as tl
from torch import Tensor

from gnnak.fast.kernels.gpu.tiles import cdiv
from gnnak.loading.padding import Span

BLOCK = 1024
"""Number of consecutive output values that one Triton program writes."""


def pad_rows(
    value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    """Split rows by batch and pad each batch to `size` rows, [b, size, ...]."""
    value = value.contiguous()
    out = value.new_empty(first.numel(), size, *value.shape[1:])
    width = prod(value.shape[1:])
    grid = (first.numel(), cdiv(max(size * width, 1), BLOCK))
    _pad_rows[grid](value, first, count, out, size, width, padding, BLOCK)
    return out


def pad_numbers(values: list[Tensor], rows: Span, named: Span, to_last: bool) -> Tensor:
    """Split index tensors by batch, let them start at 0 in each batch, and pad them."""
    batches = rows.first.numel()
    out = values[0].new_empty(batches, len(values) * rows.most)
    for number, value in enumerate(values):
        _pad_numbers[(batches, cdiv(rows.most, BLOCK))](
            value.contiguous(), rows.first, rows.count, rows.size, named.first,
            named.count, named.size, out, out.stride(0), number, to_last, BLOCK,
        )  # fmt: skip
    return out


def pad_pointers(
    value: Tensor, first: Tensor, end: Tensor, size: int, rows_first: Tensor
) -> Tensor:
    """Split a CSR row pointer by batch, and pad it with empty groups, [b, size + 1]."""
    out = value.new_empty(first.numel(), size + 1)
    grid = (first.numel(), cdiv(size + 1, BLOCK))
    _pad_pointers[grid](value, first, end, rows_first, out, size + 1, BLOCK)
    return out


FIELDS = ["value", "first", "count", "out"]
"""Kernel arguments that may point to slices of larger tensors: since the alignment
of slices varies, Triton must not compile one version per alignment."""


@triton.jit(
    do_not_specialize=["size", "width", "padding"],
    do_not_specialize_on_alignment=FIELDS,
)
def _pad_rows(value, first, count, out, size, width, padding, BLOCK: tl.constexpr):
    """Write `BLOCK` values of one padded batch."""
    batch = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside, real = place < size * width, place < tl.load(count + batch) * width
    found = tl.load(
        value + tl.load(first + batch) * width + place, mask=inside & real, other=0
    )
    found = tl.where(real, found, padding.to(found.dtype))
    tl.store(out + batch * size * width + place, found, mask=inside)


@triton.jit(
    do_not_specialize=["stride", "number"],
    do_not_specialize_on_alignment=[
        *FIELDS,
        "size",
        "named_first",
        "named_count",
        "named_size",
    ],
)
def _pad_numbers(
    value, first, count, size, named_first, named_count, named_size, out, stride,
    number,
    TO_LAST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write `BLOCK` padded indices of one batch.

    `number` is the position of the index tensor `value` among them. `first`, `count`
    and `size` are fields of `rows`; arguments that start with `named_` are fields of
    `named`.
    """
    batch = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    rows, things = tl.load(count + batch), tl.load(named_count + batch)
    padded, named_padded = tl.load(size + batch), tl.load(named_size + batch)
    inside, real = place < padded, place < rows
    found = tl.load(value + tl.load(first + batch) + place, mask=inside & real, other=0)
    found -= tl.load(named_first + batch)
    if TO_LAST:
        spread = tl.zeros_like(found) + (named_padded - 1)
    else:
        spread = (place - rows) * (named_padded - things) // (padded - rows) + things
    found = tl.where(real, found, spread)
    tl.store(out + batch * stride + number * padded + place, found, mask=inside)


@triton.jit(
    do_not_specialize=["size"],
    do_not_specialize_on_alignment=["value", "first", "end", "rows_first", "out"],
)
def _pad_pointers(value, first, end, rows_first, out, size, BLOCK: tl.constexpr):
    """Write `BLOCK` row pointers of one batch."""
    batch = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    key = tl.minimum(tl.load(first + batch) + place, tl.load(end + batch))
    found = tl.load(value + key, mask=inside, other=0) - tl.load(rows_first + batch)
    tl.store(out + batch * size + place, found, mask=inside)
