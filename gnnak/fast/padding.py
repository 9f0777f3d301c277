"""Pad the rows of many batches at once, with one Triton kernel per field.

The functions, their arguments and results are those of `gnnak.loading.padding`. There
every field takes several PyTorch operations; here it is one pass over the output. In
all kernels, a program writes `BLOCK` consecutive values of one batch.
"""

from math import prod

import triton
import triton.language as tl
from torch import Tensor

from gnnak.loading.padding import Span

BLOCK = 1024
"""Values that one program writes."""


def pad_rows(
    value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    """Return the rows of each batch, padded at the end to `size` rows, [b, size, ...].

    Arguments as in `gnnak.loading.padding.pad_rows`.
    """
    value = value.contiguous()
    out = value.new_empty(first.numel(), size, *value.shape[1:])
    width = prod(value.shape[1:])
    grid = (first.numel(), triton.cdiv(max(size * width, 1), BLOCK))
    _pad_rows[grid](value, first, count, out, size, width, padding, BLOCK)
    return out


def pad_numbers(values: list[Tensor], rows: Span, named: Span, to_last: bool) -> Tensor:
    """Return the indices of each batch, counted from its own first row and padded.

    Arguments and result as of `gnnak.loading.padding.pad_numbers`: padding indices
    refer to padding rows.
    """
    batches = rows.first.numel()
    out = values[0].new_empty(batches, len(values) * rows.most)
    for number, value in enumerate(values):
        _pad_numbers[(batches, triton.cdiv(rows.most, BLOCK))](
            value.contiguous(),
            rows.first,
            rows.count,
            rows.size,
            named.first,
            named.count,
            named.size,
            out,
            out.stride(0),
            number,
            to_last,
            BLOCK,
        )
    return out


def pad_pointers(
    value: Tensor, first: Tensor, end: Tensor, size: int, rows_first: Tensor
) -> Tensor:
    """Return the row pointers of each batch, padded with empty groups, [b, size + 1].

    Arguments as in `gnnak.loading.padding.pad_pointers`.
    """
    out = value.new_empty(first.numel(), size + 1)
    grid = (first.numel(), triton.cdiv(size + 1, BLOCK))
    _pad_pointers[grid](value, first, end, rows_first, out, size + 1, BLOCK)
    return out


FIELDS = ["value", "first", "count", "out"]
"""Pointer arguments that may be slices: do not compile a version per alignment."""


@triton.jit(
    do_not_specialize=["size", "width", "padding"],
    do_not_specialize_on_alignment=FIELDS,
)
def _pad_rows(value, first, count, out, size, width, padding, BLOCK: tl.constexpr):
    """Copy values of one batch, whose rows have `width` values, and pad after them."""
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
    value,
    first,
    count,
    size,
    named_first,
    named_count,
    named_size,
    out,
    stride,
    number,
    TO_LAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write indices of one batch, of index tensor `number`, relative to its first row.

    Index tensor `number` starts after the `number * padded` entries of those before it.
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
    """Write row pointers of one batch; padding repeats the end of the last key."""
    batch = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    key = tl.minimum(tl.load(first + batch) + place, tl.load(end + batch))
    found = tl.load(value + key, mask=inside, other=0) - tl.load(rows_first + batch)
    tl.store(out + batch * size + place, found, mask=inside)
