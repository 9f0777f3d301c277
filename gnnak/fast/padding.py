"""Pad tensors of many batches at once, with one Triton kernel per tensor.

All functions take the arguments and return the results of the functions of the same
names in `gnnak.loading.padding`, which use several PyTorch operations per tensor. The
kernels here write each output once. In every kernel, one program writes `BLOCK`
consecutive values of one batch.
"""

from math import prod

import triton
import triton.language as tl
from torch import Tensor

from gnnak.loading.padding import Span

BLOCK = 1024
"""Number of consecutive output values that one Triton program writes."""


def pad_rows(
    value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    """Return the rows of each of b batches, padded at the end, [b, size, ...].

    Args:
        value: Rows of all batches, one batch after the other, [r, ...].
        first: The first row of each batch, [b].
        count: Number of rows of each batch before padding, [b].
        size: Number of rows of each batch after padding.
        padding: Value of the padding rows.
    """
    value = value.contiguous()
    out = value.new_empty(first.numel(), size, *value.shape[1:])
    width = prod(value.shape[1:])
    grid = (first.numel(), triton.cdiv(max(size * width, 1), BLOCK))
    _pad_rows[grid](value, first, count, out, size, width, padding, BLOCK)
    return out


def pad_numbers(values: list[Tensor], rows: Span, named: Span, to_last: bool) -> Tensor:
    """Make index tensors relative to the first row of each batch, and pad them.

    Padding indices refer to padding rows only. `gnnak.loading.padding.pad_numbers`
    describes the layout of the result.

    Args:
        values: Index tensors over all batches, such as the sources of all edges, [r]
            each.
        rows: The axis of which the index tensors have one entry per row, such as edges.
        named: The axis whose rows the indices refer to, such as nodes.
        to_last: Whether all padding indices refer to the last row of `named`. If False,
            they are spread evenly over the padding rows.
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
    """Return the CSR row pointers of each of b batches, padded, [b, size + 1].

    The padding describes groups without rows.

    Args:
        value: Row pointers of all batches: where the rows of each group start, [k + 1].
        first: The first group of each batch, [b].
        end: One more than the last group of each batch, [b].
        size: Number of groups of each batch after padding.
        rows_first: The first row of each batch, subtracted from its pointers, [b].
    """
    out = value.new_empty(first.numel(), size + 1)
    grid = (first.numel(), triton.cdiv(size + 1, BLOCK))
    _pad_pointers[grid](value, first, end, rows_first, out, size + 1, BLOCK)
    return out


FIELDS = ["value", "first", "count", "out"]
"""Names of kernel arguments that point to tensors which may be slices of others.

Slices differ in alignment; Triton is told not to compile one version per alignment."""


@triton.jit(
    do_not_specialize=["size", "width", "padding"],
    do_not_specialize_on_alignment=FIELDS,
)
def _pad_rows(value, first, count, out, size, width, padding, BLOCK: tl.constexpr):
    """Triton kernel of `pad_rows`: write `BLOCK` values of one padded batch.

    Arguments as in `pad_rows`; `out` receives the padded rows.
    """
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
    """Triton kernel of `pad_numbers`: write `BLOCK` padded indices of one batch.

    Arguments as in `pad_numbers`; `value` is one of its index tensors, and `out`
    receives the padded indices.
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
    """Triton kernel of `pad_pointers`: write `BLOCK` row pointers of one batch.

    Arguments as in `pad_pointers`; `out` receives the padded row pointers.
    """
    batch = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    key = tl.minimum(tl.load(first + batch) + place, tl.load(end + batch))
    found = tl.load(value + key, mask=inside, other=0) - tl.load(rows_first + batch)
    tl.store(out + batch * size + place, found, mask=inside)
