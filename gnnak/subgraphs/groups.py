"""Group the rows of a tensor by key, in compressed sparse row (CSR) form."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

UNSAVED = "_unsaved"
"""Name of the attribute with cached values that deep copies and pickles leave out."""


class Compact:
    """Base class: pickles and deep copies store a view without its base tensor."""

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name != UNSAVED}
        return _without_others(kept)

    def __copy__(self) -> Self:
        found = object.__new__(type(self))
        vars(found).update(vars(self))
        return found


def _without_others(value: Any) -> Any:
    """Clone views of larger tensors, also in dicts, to save only the viewed parts."""
    if isinstance(value, dict):
        return {name: _without_others(part) for name, part in value.items()}
    if isinstance(value, Tensor) and value.untyped_storage().nbytes() > value.nbytes:
        return value.clone()
    return value


@dataclass(frozen=True, eq=False)
class Groups(Compact):
    """Rows of a tensor split into groups: group `i` is `order[ptr[i]:ptr[i + 1]]`.

    Padding rows belong to no group: they are in `order` from position `ptr[-1]` on.
    """

    ptr: Tensor
    """[groups + 1], int64: where the rows of each group begin and end in `order`."""
    order: Tensor | None = None
    """[rows], int64: row numbers sorted by group. None if rows are in this order."""

    def __len__(self) -> int:
        return self.ptr.numel() - 1


class GroupKey(NamedTuple):
    """The arguments of one call of `group`."""

    key: Tensor
    """[rows], in 0..size-1: the group of each row."""
    size: int
    in_order: bool = False
    """Whether `key` is sorted, so that no sort is needed."""


def group(key: Tensor, size: int, in_order: bool = False) -> Groups:
    """Group the rows of a tensor by an integer key. Rows of a group stay in order."""
    order = None
    if not in_order:
        # A radix sort needs half as many passes for int32 keys as for int64 keys.
        key = key.int() if size < 2**31 else key
        key, order = torch.sort(key, stable=True)
    keys = torch.arange(size + 1, dtype=key.dtype, device=key.device)
    return Groups(torch.searchsorted(key.contiguous(), keys), order)


def group_each(keys: Sequence[GroupKey]) -> list[Groups]:
    """Call `group` on several keys, with one sort, which is faster on a GPU."""
    unsorted = [each for each in keys if not each.in_order]
    together = iter(_group_together(unsorted) if len(unsorted) > 1 else [])
    found = []
    for each in keys:
        alone = each.in_order or len(unsorted) == 1
        found.append(group(*each) if alone else next(together))
    return found


def _group_together(keys: Sequence[GroupKey]) -> list[Groups]:
    """Group by several keys with one sort, after shifting them to disjoint ranges."""
    rows = [each.key.numel() for each in keys]
    first_group = [0, *accumulate(each.size for each in keys)]
    first_row = [0, *accumulate(rows)][:-1]
    numbered = list(zip(keys, first_group, strict=False))
    shifted = [each.key + first if first else each.key for each, first in numbered]
    key = torch.cat(shifted)
    whole = group(key, first_group[-1])
    assert whole.order is not None
    ptr = [whole.ptr[first : first + each.size + 1] for each, first in numbered]
    # Number rows from 0 for each key. The results are new tensors, so `whole` is freed.
    moved = torch._foreach_sub([*ptr, *whole.order.split(rows)], first_row * 2)
    return [Groups(*pair) for pair in zip(moved, moved[len(keys) :], strict=False)]
