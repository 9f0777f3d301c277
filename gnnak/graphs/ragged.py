"""Ragged arrays: rows of different lengths concatenated into one flat tensor."""

import torch
from torch import Tensor


def pointers(counts: Tensor) -> Tensor:
    """Return the row pointer of rows with the lengths `counts`, [..., rows + 1].

    A row pointer, as in compressed sparse row (CSR) matrices, is the cumulative sum of
    the lengths with a leading zero: `[0, c_0, c_0 + c_1, ...]`.

    Args:
        counts: The lengths, [..., rows]; each line of a matrix has its own row pointer.

    >>> pointers(torch.tensor([2, 0, 3]))
    tensor([0, 2, 2, 5])
    """
    start = counts.new_zeros(*counts.shape[:-1], counts.size(-1) + 1)
    torch.cumsum(counts, -1, out=start[..., 1:])
    return start


def ragged_ranges(
    start: Tensor,
    count: Tensor,
    total: int | None = None,
    ptr: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Concatenate the ranges `start[i], ..., start[i] + count[i] - 1`.

    Args:
        start: First value of each of the r ranges, [r].
        count: Length of each range, [r]; may be 0.
        total: The sum of `count`, if known; None = compute it, which synchronises with
            the device.
        ptr: The row pointer of `count`, if known; None = compute it.

    Returns:
        For each entry of the concatenation, the index `i` of its range, and its value;
        both of shape [total].

    >>> ragged_ranges(torch.tensor([5, 0, 7]), torch.tensor([2, 0, 3]))
    (tensor([0, 0, 2, 2, 2]), tensor([5, 6, 7, 8, 9]))
    """
    if ptr is not None:
        return _shifted(start - ptr[:-1], count, total)
    return ragged_ranges_to(start + count, count, torch.cumsum(count, 0), total)


def ragged_ranges_to(
    stop: Tensor, count: Tensor, end: Tensor, total: int | None
) -> tuple[Tensor, Tensor]:
    """Concatenate the ranges `stop[i] - count[i], ..., stop[i] - 1`.

    This is `ragged_ranges` for callers that know the cumulative sum of `count`.

    Args:
        stop: The number after the last value of each of the r ranges, [r].
        count: Length of each range, [r]; may be 0.
        end: The cumulative sum of `count`, [r]; see `range_ends`.
        total: The sum of `count`, as in `ragged_ranges`.

    Returns:
        The result of `ragged_ranges`.
    """
    # Entry j of the concatenation is `end[i] - j` before the end of its range.
    return _shifted(stop - end, count, total)


def _shifted(shift: Tensor, count: Tensor, total: int | None) -> tuple[Tensor, Tensor]:
    """Return the index of the range of each entry, and its value.

    Args:
        shift: The difference of value and position, the same in a whole range, [r].
        count: Length of each range, [r].
        total: The sum of `count`, as in `ragged_ranges`.
    """
    row = torch.repeat_interleave(count, output_size=total)
    value = torch.arange(row.numel(), device=count.device)
    value += shift.index_select(0, row)
    return row, value


def range_ends(count: Tensor) -> tuple[Tensor, int]:
    """Return where ranges end in their concatenation, and the sum of their lengths.

    This synchronises with the device. Callers that need to know the sum before they
    call `ragged_ranges_to` use this.

    Args:
        count: Length of each of the r ranges, [r].

    >>> range_ends(torch.tensor([2, 0, 3]))
    (tensor([2, 2, 5]), 5)
    """
    end = torch.cumsum(count, 0)
    return end, int(end[-1]) if end.numel() else 0


def counts_of(index: Tensor, size: int) -> Tensor:
    """Count how often each of the numbers 0..size-1 occurs in `index`.

    Returns:
        The counts, [size], on the device of `index`.

    >>> counts_of(torch.tensor([0, 2, 2]), 4)
    tensor([1, 0, 2, 0])
    """
    ones = torch.ones_like(index)
    return index.new_zeros(size).scatter_add_(0, index, ones)


def chunk_cuts(work: Tensor, limit: int) -> list[int]:
    """Divide a sequence of rows into chunks of about equal cost.

    Args:
        work: Cost of each row as an integer, such as its length; a 1-d tensor.
        limit: Approximate cost of a chunk, that is, the sum over its rows.

    Returns:
        The index of the first row of every chunk except the first chunk, as
        `torch.tensor_split` expects.

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
    """Convert integers to the smallest signed integer type that can represent them.

    Adding an int64 tensor to the result gives int64 again, by PyTorch's type promotion.

    >>> narrow(torch.tensor([0, 127])).dtype, narrow(torch.tensor([128])).dtype
    (torch.int8, torch.int16)
    """
    least, most = (int(end) for end in values.aminmax()) if values.numel() else (0, 0)
    kinds = ((kind, torch.iinfo(kind)) for kind in NARROW)
    fitting = (kind for kind, of in kinds if of.min <= least and most <= of.max)
    return values.to(next(fitting, torch.int64))
