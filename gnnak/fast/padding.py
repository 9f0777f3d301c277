"""Pad tensors of many batches at once, with one Triton kernel per tensor.

Each public function replaces the function of the same name in `gnnak.loading.padding`,
which needs several PyTorch operations per tensor. In every kernel, one program writes
`BLOCK` consecutive values of one batch.
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
    """Split rows by batch and pad each of the b batches to `size` rows, [b, size, ...].

    Args:
        value: The r rows of all batches, one batch after the other, [r, ...].
        first: The first row of each batch, [b].
        count: Number of rows of each batch before padding, [b].
        size: Number of rows of each batch after padding.
        padding: Value of the rows added at the end of each batch.
    """
    value = value.contiguous()
    out = value.new_empty(first.numel(), size, *value.shape[1:])
    width = prod(value.shape[1:])
    grid = (first.numel(), cdiv(max(size * width, 1), BLOCK))
    _pad_rows[grid](value, first, count, out, size, width, padding, BLOCK)
    return out


def pad_numbers(values: list[Tensor], rows: Span, named: Span, to_last: bool) -> Tensor:
    """Split index tensors by batch, let them start at 0 in each batch, and pad them.

    For example, the source and target nodes of all edges are split by batch. Padding
    indices refer only to padding rows (rows added to reach a fixed size), such as
    padding nodes.

    Args:
        values: The v index tensors, [r] each, with indices counted over all batches.
        rows: Where each of b batches has its entries in an index tensor, for example
            its edges.
        named: Where each batch has the rows that the indices refer to, for example its
            nodes.
        to_last: Whether all padding indices refer to the batch's last row after
            padding; if False, they are spread evenly over the padding rows.

    Returns:
        One row per batch, [b, v * rows.most]: the padded entries of the first index
        tensor, then those of the second, and so on. Entries after that are undefined.
    """
    batches = rows.first.numel()
    out = values[0].new_empty(batches, len(values) * rows.most)
    for number, value in enumerate(values):
        _pad_numbers[(batches, cdiv(rows.most, BLOCK))](
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
    """Split a CSR row pointer by batch, and pad it with empty groups.

    The row pointer tells where each of k groups of rows starts. The groups of a batch
    are consecutive, and so are its rows.

    Args:
        value: The row pointer of all b batches, [k + 1].
        first: The first group of each batch, [b].
        end: One more than the last group of each batch, [b].
        size: Number of groups of each batch after padding.
        rows_first: The first row of each batch, [b]. It is subtracted from the batch's
            row pointer, which then starts at 0.

    Returns:
        The row pointer of each batch, [b, size + 1].
    """
    out = value.new_empty(first.numel(), size + 1)
    grid = (first.numel(), cdiv(size + 1, BLOCK))
    _pad_pointers[grid](value, first, end, rows_first, out, size + 1, BLOCK)
    return out


FIELDS = ["value", "first", "count", "out"]
"""Kernel arguments for which Triton must not compile one version per alignment.

They may point to slices of larger tensors, and the alignment of slices varies."""


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

    Arguments as in `pad_numbers`: `value` is one of the index tensors, and `number` is
    its position among them. `first`, `count` and `size` are fields of `rows`; arguments
    that start with `named_` are fields of `named`. `out` receives the padded indices.
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
