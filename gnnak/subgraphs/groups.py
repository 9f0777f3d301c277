"""Group the rows of a tensor by key, in compressed sparse row (CSR) form."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows of a tensor split into groups, in compressed sparse row (CSR) form.

    The rows of group `i` are `order[ptr[i]:ptr[i + 1]]`. If the tensor has padding rows
    (added to reach a fixed size), these belong to no group: they are the entries of
    `order` from position `ptr[-1]` on. In shapes, k is the number of groups and m the
    number of rows.
    """

    ptr: Tensor
    """[k + 1], int64: the position in `order` where each of the k groups starts, and
    where the last group ends."""
    order: Tensor | None = None
    """[m], int64: row numbers sorted by group. None means 0..m-1: the rows themselves
    are already sorted by group."""

    def __len__(self) -> int:
        return self.ptr.numel() - 1


def group(key: Tensor, size: int, in_order: bool = False) -> Groups:
    """Group the rows of a tensor by an integer key; each group keeps the row order.

    Args:
        key: The number of the group that each row is in, [m], in 0..size-1.
        size: Number of groups.
        in_order: True if `key` is already sorted; sorting is then skipped, and `order`
            of the result is None.

    >>> groups = group(torch.tensor([1, 0, 1]), 3)
    >>> groups.order, groups.ptr
    (tensor([1, 0, 2]), tensor([0, 1, 3, 3]))
    """
    order = None
    if not in_order:
        # A radix sort needs half as many passes for int32 keys as for int64 keys.
        key = key.int() if size < 2**31 else key
        key, order = torch.sort(key, stable=True)
    keys = torch.arange(size + 1, dtype=key.dtype, device=key.device)
    return Groups(torch.searchsorted(key.contiguous(), keys), order)
