"""Rows that share a key, as runs: what sorted segment reductions walk along."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Groups:
    """Which rows share a key: group `k` has the rows `order[ptr[k]]` and on.

    Rows behind the last pointer, the padding of a batch of fixed size, are in no group.
    """

    ptr: Tensor
    """[k + 1], int64: where the rows of each key start."""
    order: Tensor | None = None
    """[m], int64: the rows, key by key; None where they stand so already."""

    def __len__(self) -> int:
        return self.ptr.numel() - 1


def group(key: Tensor, size: int, in_order: bool = False) -> Groups:
    """Group rows by their key, rows of one key in the order they have.

    Args:
        key: The key of each row, [m], in 0..size-1.
        size: Number of keys.
        in_order: Whether the keys never decrease.

    >>> groups = group(torch.tensor([1, 0, 1]), 3)
    >>> groups.order, groups.ptr
    (tensor([1, 0, 2]), tensor([0, 1, 3, 3]))
    """
    order = None
    if not in_order:
        # Sorts look at every bit of the keys: half of them, where those do.
        key = key.int() if size < 2**31 else key
        key, order = torch.sort(key, stable=True)
    keys = torch.arange(size + 1, dtype=key.dtype, device=key.device)
    return Groups(torch.searchsorted(key.contiguous(), keys), order)
