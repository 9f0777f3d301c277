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
    """Where the rows of each of b batches are in a tensor with the rows of all batches.

    There is one `Span` for tensors with a row per node, one for tensors with a row per
    edge, and so on.
    """

    first: Tensor
    """[b]: position of the first row of each batch, before padding."""
    count: Tensor
    """[b]: number of rows of each batch before padding."""
    size: Tensor
    """[b]: number of rows of each batch after padding."""
    most: int
    """The maximum of `size`: the number of rows of the largest padded batch."""


@operation
def pad_rows(
    value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    """Return the rows of each batch, padded at the end to `size` rows, [b, size, ...].

    Args:
        value: The r rows of all b batches, [r, ...].
        first: Position in `value` of the first row of each batch, [b].
        count: Number of rows of each batch, [b].
        size: Number of rows of each batch after padding.
        padding: Value of the padding rows.
    """
    found, is_padding = _gather(value, first, count, size)
    is_padding = is_padding.view(*is_padding.shape, *[1] * (value.dim() - 1))
    return found.masked_fill_(is_padding, padding)


@operation
def pad_numbers(values: list[Tensor], rows: Span, named: Span, to_last: bool) -> Tensor:
    """Split index tensors, such as the two rows of `edge_index`, by batch and pad them.

    The resulting indices count from the first row of their own batch. Padding indices
    refer to padding rows only, and are spread evenly over the padding rows.

    Args:
        values: The v index tensors, such as the source and target nodes of all edges,
            [r] each, with indices counted over all batches.
        rows: Where the entries of each of b batches are in an index tensor; for
            `edge_index`, where the edges of each batch are.
        named: Where the rows are that the indices refer to; for `edge_index`, where the
            nodes of each batch are.
        to_last: If True, all padding indices refer to the last padding row instead.

    Returns:
        One row per batch, [b, v * rows.most]: the padded entries of the first index
        tensor, then those of the second, and so on. The rest of a row is undefined.
    """
    place = torch.arange(rows.most, device=rows.first.device)
    count, size, real = rows.count[:, None], rows.size[:, None], named.count[:, None]
    spread = named.size[:, None] - 1
    if not to_last:
        spread = (place - count) * (spread + 1 - real) // (size - count) + real
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
    """Split a CSR row pointer by batch, and pad it with empty groups.

    The pointer tells where each of k groups of rows starts. The groups of a batch are
    consecutive, and so are the rows of a batch.

    Args:
        value: The pointer for all b batches, [k + 1].
        first: Position of the first group of each batch, [b].
        end: Position after the last group of each batch, [b].
        size: Number of groups of each batch after padding.
        rows_first: Position of the first row of each batch, [b]; subtracted from the
            pointer of the batch, so that the pointer starts at 0.

    Returns:
        The pointer of each batch, [b, size + 1].
    """
    key = torch.arange(size + 1, device=value.device)
    key = torch.minimum(first[:, None] + key, end[:, None])
    return value[key] - rows_first[:, None]


def _gather(
    value: Tensor, first: Tensor, count: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """Return the rows of each batch, extended to `size` rows, and a mask.

    The mask is True for the added rows, whose values are undefined. Arguments as in
    `pad_rows`.
    """
    if not value.size(0):
        value = value.new_zeros(1, *value.shape[1:])
    place = torch.arange(size, device=first.device)
    last = (first + count).clamp(min=1) - 1
    row = torch.minimum(first[:, None] + place, last[:, None])
    return value[row], place >= count[:, None]
