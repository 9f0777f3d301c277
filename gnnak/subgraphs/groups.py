"""Group rows by a key in CSR form, for sorted segment reductions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows grouped by key: group `k` is `order[ptr[k]:ptr[k + 1]]`.

    Rows from `ptr[-1]` on belong to no group: they pad a batch to a fixed size.
    """

    ptr: Tensor
    """[k + 1], int64: row pointer (CSR), the position where each group starts."""
    order: Tensor | None = None
    """[m], int64: the rows sorted by key; None if the rows are already sorted."""

    def __len__(self) -> int:
        return self.ptr.numel() - 1


def group(key: Tensor, size: int, in_order: bool = False) -> Groups:
    """Group rows by key with a stable sort: rows of one group keep their order.

    Args:
        key: The key of each row, [m], in 0..size-1.
        size: Number of keys.
        in_order: Whether `key` is already sorted; the sort is then skipped.

    >>> groups = group(torch.tensor([1, 0, 1]), 3)
    >>> groups.order, groups.ptr
    (tensor([1, 0, 2]), tensor([0, 1, 3, 3]))
    """
    order = None
    if not in_order:
        # A radix sort of int32 keys has half the passes of one of int64 keys.
        key = key.int() if size < 2**31 else key
        key, order = torch.sort(key, stable=True)
    keys = torch.arange(size + 1, dtype=key.dtype, device=key.device)
    return Groups(torch.searchsorted(key.contiguous(), keys), order)
