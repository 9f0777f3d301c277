"""Rows of many batches, padded, in PyTorch."""

import torch
from torch import Tensor


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


def pad_numbers(
    values: list[Tensor],
    rows: tuple[Tensor, Tensor, int],
    named: tuple[Tensor, Tensor, int],
    to_last: bool,
) -> Tensor:
    """[b, v, size]: numbers of things, counted from 0 in each batch.

    What is padding names padding: the i-th of p such rows the (i q / p)-th of q others.

    Args:
        values: Numbers of all batches, v times [r].
        rows: Where the rows of each batch begin [b], how many there are [b], and how
            many there shall be.
        named: The same of the things.
        to_last: Whether what is padding names the last of the things instead.
    """
    (first, count, size), (named_first, named_count, named_size) = rows, named
    place = torch.arange(size, device=first.device)
    spread = place.new_full((), named_size - 1)
    if not to_last:
        number = (place - count[:, None]) * (named_size - named_count)[:, None]
        spread = number // (size - count)[:, None] + named_count[:, None]
    out = first.new_empty(first.numel(), len(values), size)
    for index, value in enumerate(values):
        found, behind = _taken(value, first, count, size)
        found -= named_first[:, None]
        torch.where(behind, spread, found, out=out[:, index])
    return out


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
