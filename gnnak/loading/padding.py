"""Pad one field of many batches at once, in PyTorch.

A field, such as the features of nodes, is given as one tensor with the rows of b
batches one after the other. Each function splits one field by batch and pads it; entry
i of the result, along the first dimension of size b, belongs to batch i.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.backend import operation


@dataclass(frozen=True, eq=False)
class Span:
    """Where the rows of each of b batches are on one axis, such as nodes."""

    first: Tensor
    """[b]: the first row of each batch, before padding."""
    count: Tensor
    """[b]: number of rows of each batch before padding."""
    size: Tensor
    """[b]: number of rows of each batch after padding."""
    most: int
    """The maximum of `size`."""


@operation
def pad_rows(
    value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    """Return the rows of each batch, padded at the end to `size` rows, [b, size, ...].

    Args:
        value: The r rows of all b batches, [r, ...].
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
    """Split index tensors by batch, let them start at 0 in each batch, and pad them.

    `values` are v index tensors, such as the source and target nodes of all edges. In
    the result, [b, v * rows.most], the row of a batch has `size` entries from the first
    tensor, then `size` entries from the second, and so on, where `size` is the batch's
    entry of `rows.size`. Entries after those of the last tensor are undefined.

    Padding indices refer to padding rows only, so padding never mixes with real data:
    the i-th of p padding indices refers to the (i q / p)-th of q padding rows.

    Args:
        values: The v index tensors, [r] each, with indices counted over all batches.
        rows: The axis of the entries of the index tensors, such as edges.
        named: The axis that the indices refer to, such as nodes.
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
    """Split a row pointer (CSR) by batch, and pad it with empty groups, [b, size + 1].

    A row pointer tells for each of k keys where its group of rows starts; the keys of a
    batch are consecutive, and so are its rows.

    Args:
        value: Row pointer of all b batches, [k + 1].
        first: The first key of each batch, [b].
        end: One more than the last key of each batch, [b].
        size: Number of keys of each batch after padding.
        rows_first: The first row of each batch, [b]. It is subtracted from the batch's
            pointers, which then start at 0.
    """
    key = torch.arange(size + 1, device=value.device)
    key = torch.minimum(first[:, None] + key, end[:, None])
    return value[key] - rows_first[:, None]


def _gather(
    value: Tensor, first: Tensor, count: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """Gather `size` rows of each of b batches, and tell which of them are padding.

    Arguments as in `pad_rows`.

    Returns:
        The rows, [b, size, ...], with undefined values in padding rows; and a mask that
        is True for padding rows, [b, size].
    """
    if not value.size(0):
        value = value.new_zeros(1, *value.shape[1:])
    place = torch.arange(size, device=first.device)
    last = (first + count).clamp(min=1) - 1
    row = torch.minimum(first[:, None] + place, last[:, None])
    return value[row], place >= count[:, None]
