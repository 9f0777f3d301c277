"""Ragged arrays: rows of different lengths concatenated into one flat tensor."""

import torch
from torch import Tensor


def pointers(counts: Tensor) -> Tensor:
    """Return 0 and the running totals of `counts`, [..., rows + 1]: a row pointer."""
    start = counts.new_zeros(*counts.shape[:-1], counts.size(-1) + 1)
    torch.cumsum(counts, -1, out=start[..., 1:])
    return start


def ragged_ranges(
    start: Tensor, count: Tensor, total: int | None = None, ptr: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Concatenate the ranges `start[i], ..., start[i] + count[i] - 1`.

    Returns two tensors [total]: the index `i` of each entry's range, and the entries.
    If `total`, the sum of `count`, is None, it is computed, which synchronises with the
    device. `ptr` is `pointers(count)`, or None if the caller has not computed it.

    >>> ragged_ranges(torch.tensor([5, 0, 7]), torch.tensor([2, 0, 3]))
    (tensor([0, 0, 2, 2, 2]), tensor([5, 6, 7, 8, 9]))
    """
    if ptr is not None:
        return _shifted(start - ptr[:-1], count, total)
    return ragged_ranges_to(start + count, count, torch.cumsum(count, 0), total)


def ragged_ranges_to(
    stop: Tensor, count: Tensor, end: Tensor, total: int | None
) -> tuple[Tensor, Tensor]:
    """Do what `ragged_ranges` does, for ranges `stop[i] - count[i], ..., stop[i] - 1`.

    `end` is the cumulative sum of `count`.
    """
    # Entry j of the concatenation is `end[i] - j` before the end of its range.
    return _shifted(stop - end, count, total)


def _shifted(shift: Tensor, count: Tensor, total: int | None) -> tuple[Tensor, Tensor]:
    """Return the range of each entry, and the entries: `shift[range] + position`."""
    row = torch.repeat_interleave(count, output_size=total)
    value = torch.arange(row.numel(), device=count.device)
    value += shift.index_select(0, row)
    return row, value


def range_ends(count: Tensor) -> tuple[Tensor, int]:
    """Return the cumulative sum of `count`, and the total as an int; this synchronises.

    >>> range_ends(torch.tensor([2, 0, 3]))
    (tensor([2, 2, 5]), 5)
    """
    end = torch.cumsum(count, 0)
    return end, int(end[-1]) if end.numel() else 0


def counts_of(index: Tensor, size: int) -> Tensor:
    """Count how often each of the numbers 0..size-1 occurs in `index`, [size]."""
    ones = torch.ones_like(index)
    return index.new_zeros(size).scatter_add_(0, index, ones)


def chunk_cuts(work: Tensor, limit: int) -> list[int]:
    """Return the rows at which to cut `work` into chunks that sum to about `limit`.

    A cut is before each row that takes the running total above a multiple of `limit`.
    In the example, the running totals are 3, 6, 9, 18 and 19. A chunk can exceed
    `limit` by at most the work of its first row.

    >>> chunk_cuts(torch.tensor([3, 3, 3, 9, 1]), limit=5)
    [1, 3]
    """
    done = torch.cumsum(work, 0)
    total = int(done[-1]) if done.numel() else 0
    if total <= limit:
        return []
    marks = torch.arange(limit, total, limit, device=done.device)
    return torch.searchsorted(done, marks, right=True).unique().tolist()


NARROW = (torch.int8, torch.int16, torch.int32)


def narrow(values: Tensor) -> Tensor:
    """Convert integers to the smallest signed integer type that can represent them."""
    least, most = (int(end) for end in values.aminmax()) if values.numel() else (0, 0)
    kinds = ((kind, torch.iinfo(kind)) for kind in NARROW)
    fitting = (kind for kind, of in kinds if of.min <= least and most <= of.max)
    return values.to(next(fitting, torch.int64))
