"""Pad the rows of many batches at once, in PyTorch.

The batches are stored one after the other in long tensors. Each function cuts one field
out of them and pads it in every batch; the results of b batches are the rows of a
matrix.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.backend import operation


@dataclass(frozen=True, eq=False)
class Span:
    """The rows of all batches on one axis, such as nodes: before and after padding."""

    first: Tensor
    """[b]: the first row of each batch."""
    count: Tensor
    """[b]: number of rows before padding."""
    size: Tensor
    """[b]: number of rows after padding."""
    most: int
    """The maximum of `size`."""


@operation
def pad_rows(
    value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    """Return the rows of each batch, padded at the end to `size` rows, [b, size, ...].

    Args:
        value: Rows of all batches, [r, ...].
        first: The first row of each batch, [b].
        count: Number of rows of each batch, [b].
        size: Number of rows after padding.
        padding: Value of the padding rows.
    """
    found, is_padding = _gather(value, first, count, size)
    is_padding = is_padding.view(*is_padding.shape, *[1] * (value.dim() - 1))
    return found.masked_fill_(is_padding, padding)


@operation
def pad_numbers(values: list[Tensor], rows: Span, named: Span, to_last: bool) -> Tensor:
    """Return the indices of each batch, counted from its own first row and padded.

    `values` are v index tensors, such as the source and target of every edge. In the
    result, [b, v * most], a batch has its `size` entries of the first tensor, then
    those of the second, and so on; entries after the last one are undefined.

    Padding indices refer to padding rows only, so they never mix with real data: the
    i-th of p padding indices refers to the (i q / p)-th of q padding rows.

    Args:
        values: The index tensors, v times [r], counted over all batches.
        rows: The axis along which they have an entry.
        named: The axis whose rows they refer to.
        to_last: Whether all padding indices refer to the last row of `named` instead.
    """
    place = torch.arange(rows.most, device=rows.first.device)
    count, size, things = rows.count[:, None], rows.size[:, None], named.count[:, None]
    spread = named.size[:, None] - 1
    if not to_last:
        spread = (place - count) * (spread + 1 - things) // (size - count) + things
    out = place.new_empty(rows.first.numel(), len(values) * rows.most)
    for number, value in enumerate(values):
        found, is_padding = _gather(value, rows.first, rows.count, rows.most)
        found = torch.where(is_padding, spread, found - named.first[:, None])
        # Entries beyond `size` are overwritten by the next index tensor.
        out.scatter_(1, number * size + place, found)
    return out


@operation
def pad_pointers(
    value: Tensor, first: Tensor, end: Tensor, size: int, rows_first: Tensor
) -> Tensor:
    """Return the row pointers of each batch, padded with empty groups, [b, size + 1].

    Args:
        value: Row pointers of all batches, [k + 1]: where the rows of each key start.
        first: The first key of each batch, [b].
        end: One more than the last key of each batch, [b].
        size: Number of keys after padding.
        rows_first: The first row of each batch, [b]; subtracted from its pointers.
    """
    key = torch.arange(size + 1, device=value.device)
    key = torch.minimum(first[:, None] + key, end[:, None])
    return value[key] - rows_first[:, None]


def _gather(
    value: Tensor, first: Tensor, count: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """Gather `size` rows per batch, [b, size, ...], and the mask of padding, [b, size].

    The values of padding rows are undefined.
    """
    if not value.size(0):
        value = value.new_zeros(1, *value.shape[1:])
    place = torch.arange(size, device=first.device)
    last = (first + count).clamp(min=1) - 1
    row = torch.minimum(first[:, None] + place, last[:, None])
    return value[row], place >= count[:, None]
