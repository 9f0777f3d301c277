"""Ragged arrays (rows of different lengths in one flat tensor), and sorting."""

import numpy as np
import torch
from torch import Tensor


def pointers(counts: Tensor) -> Tensor:
    """Return the row pointer of rows with `counts` entries each, [..., rows + 1]."""
    start = counts.new_zeros(*counts.shape[:-1], counts.size(-1) + 1)
    torch.cumsum(counts, -1, out=start[..., 1:])
    return start


def ragged_ranges(
    start: Tensor, count: Tensor, total: int | None = None, ptr: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Concatenate the ranges `start[i], ..., start[i] + count[i] - 1`.

    Returns the number `i` of each integer's range, [total], and the integers, [total].
    If `total` is None, it is computed, which synchronises. `ptr` is `pointers(count)`,
    if known.
    """
    if ptr is not None:
        return _shifted(start - ptr[:-1], count, total)
    return ragged_ranges_to(start + count, count, torch.cumsum(count, 0), total)


def ragged_ranges_to(
    stop: Tensor, count: Tensor, end: Tensor, total: int | None
) -> tuple[Tensor, Tensor]:
    """Like `ragged_ranges`, but `stop` replaces `start`; `end` is `count.cumsum(0)`."""
    # Entry j of the concatenation is `end[i] - j` before the end of its range.
    return _shifted(stop - end, count, total)


def _shifted(shift: Tensor, count: Tensor, total: int | None) -> tuple[Tensor, Tensor]:
    """List i `count[i]` times; return the list, and its positions plus `shift[i]`."""
    row = torch.repeat_interleave(count, output_size=total)
    value = torch.arange(row.numel(), device=count.device)
    value += shift.index_select(0, row)
    return row, value


def range_ends(count: Tensor) -> tuple[Tensor, int]:
    """Return `count.cumsum(0)` and the total as an int, which synchronises."""
    end = torch.cumsum(count, 0)
    return end, int(end[-1]) if end.numel() else 0


def counts_of(index: Tensor, size: int) -> Tensor:
    """Count how often each of the numbers 0..size-1 occurs in `index`, [size]."""
    return index.new_zeros(size).scatter_add_(0, index, torch.ones_like(index))


def chunk_cuts(work: Tensor, limit: int) -> list[int]:
    """Cut rows into chunks of about `limit` work; return their starts, without row 0.

    A chunk starts at each row that takes the running total above a multiple of `limit`.

    >>> chunk_cuts(torch.tensor([3, 3, 3, 9, 1]), limit=5)
    [1, 3]
    """
    done = torch.cumsum(work, 0)
    total = int(done[-1]) if done.numel() else 0
    if total <= limit:
        return []
    marks = torch.arange(limit, total, limit, device=done.device)
    return torch.searchsorted(done, marks, right=True).unique().tolist()


def sorted_values(values: Tensor) -> Tensor:
    if values.device.type != "cpu" or torch.compiler.is_compiling():
        return torch.sort(values).values
    return torch.from_numpy(np.sort(values.numpy()))


def distinct(values: Tensor) -> Tensor:
    values = sorted_values(values.flatten())
    first = torch.ones_like(values, dtype=torch.bool)
    torch.ne(values[1:], values[:-1], out=first[1:])
    return values.masked_select(first)


FEW = 1 << 12
"""For fewer pairs, `sort_pairs` uses `torch.sort`, which launches fewer operations."""


def sort_pairs(
    key: Tensor, key_size: int, value: Tensor | None = None, value_size: int = 0
) -> tuple[Tensor, Tensor]:
    """Sort pairs (key, value) of integers by key; return keys and values.

    Values of equal keys must be in increasing order. By default, values are positions.
    """
    bits = max((key.numel() if value is None else value_size) - 1, 0).bit_length()
    few = key.device.type != "cpu" or key.numel() < FEW
    if few or key_size << bits > INT64_MAX or torch.compiler.is_compiling():
        key, order = torch.sort(key, stable=True)
        return key, order if value is None else value.index_select(0, order)
    value = torch.arange(key.numel()) if value is None else value
    packed = sorted_values((key << bits).bitwise_or_(value))
    return packed >> bits, packed.bitwise_and_((1 << bits) - 1)


INT64_MAX = 2**63 - 1
NARROW = (torch.int8, torch.int16, torch.int32)


def narrow(values: Tensor) -> Tensor:
    """Convert integers to the smallest signed integer type that can represent them."""
    least, most = (int(end) for end in values.aminmax()) if values.numel() else (0, 0)
    kinds = ((kind, torch.iinfo(kind)) for kind in NARROW)
    fitting = (kind for kind, of in kinds if of.min <= least and most <= of.max)
    return values.to(next(fitting, torch.int64))
