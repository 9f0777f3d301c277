"""Rows of many batches, padded, in PyTorch."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.backend import operation


@dataclass(frozen=True, eq=False)
class Span:
    """Where rows of each batch are on an axis, and how many there shall be."""

    first: Tensor
    """[b]: where they begin."""
    count: Tensor
    """[b]: how many there are."""
    size: Tensor
    """[b]: how many there shall be."""
    most: int
    """The largest of these sizes."""


@operation
def pad_rows(
    value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    """[b, size, ...]: the rows of each batch, and padding behind them.

    Args:
        value: Rows of all batches, [r, ...].
        first: Where those of each begin, [b].
        count: How many there are of each, [b].
        size: How many there shall be.
        padding: What the others hold.
    """
    found, behind = _taken(value, first, count, size)
    behind = behind.view(*behind.shape, *[1] * (value.dim() - 1))
    return found.masked_fill_(behind, padding)


@operation
def pad_numbers(values: list[Tensor], rows: Span, named: Span, to_last: bool) -> Tensor:
    """[b, v * most]: numbers of things, counted from 0 in each batch.

    Those of v values stand one after the other, `size` of each; then comes anything.
    What is padding names padding: the i-th of p such rows the (i q / p)-th of q others.

    Args:
        values: Numbers of all batches, v times [r].
        rows: The rows of each batch.
        named: The things.
        to_last: Whether what is padding names the last of the things instead.
    """
    place = torch.arange(rows.most, device=rows.first.device)
    count, size, things = rows.count[:, None], rows.size[:, None], named.count[:, None]
    spread = named.size[:, None] - 1
    if not to_last:
        spread = (place - count) * (spread + 1 - things) // (size - count) + things
    out = place.new_empty(rows.first.numel(), len(values) * rows.most)
    for number, value in enumerate(values):
        found, behind = _taken(value, rows.first, rows.count, rows.most)
        found = torch.where(behind, spread, found - named.first[:, None])
        # What is beyond the size of a batch goes where the next value is put.
        out.scatter_(1, number * size + place, found)
    return out


@operation
def pad_pointers(
    value: Tensor, first: Tensor, end: Tensor, size: int, rows_first: Tensor
) -> Tensor:
    """[b, size + 1]: pointers of each batch; those of padding are where rows end.

    Args:
        value: Pointers of all batches, [k + 1].
        first: The first key of each batch, [b].
        end: The key behind its last one, [b].
        size: How many keys there shall be.
        rows_first: Its first row, [b].
    """
    key = torch.arange(size + 1, device=value.device)
    key = torch.minimum(first[:, None] + key, end[:, None])
    return value[key] - rows_first[:, None]


def _taken(
    value: Tensor, first: Tensor, count: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """[b, size, ...]: rows of each batch, anything behind them, and where that is."""
    if not value.size(0):
        value = value.new_zeros(1, *value.shape[1:])
    place = torch.arange(size, device=first.device)
    last = (first + count).clamp(min=1) - 1
    row = torch.minimum(first[:, None] + place, last[:, None])
    return value[row], place >= count[:, None]
