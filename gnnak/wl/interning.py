"""Intern tuples and multisets: replace each of them by its rank, an integer.

The rank is the position in the sorted list of all distinct tuples. So there are no hash
collisions, and ranks do not depend on node order. All values are int64, at least 0.
"""

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of, pointers

_LIMIT = 1 << 62
"""`rank_pairs` encodes pairs as integers below this limit, which fit into int64."""


def rank(values: Tensor) -> Tensor:
    """Replace each number by its rank (0, 1, 2, ...) among the distinct numbers."""
    if not values.numel():
        return values
    low, high = (int(bound) for bound in values.aminmax())
    span = high - low + 1
    if span > 4 * values.numel() + 1024:
        return torch.unique(values, return_inverse=True)[1]
    present = torch.zeros(span, dtype=torch.long, device=values.device)
    present[values - low] = 1
    return (torch.cumsum(present, 0) - 1)[values - low]


def rank_pairs(first: Tensor, second: Tensor) -> Tensor:
    """Replace each pair `(first[i], second[i])` by its lexicographic rank."""
    if not first.numel():
        return first
    if (int(first.max()) + 1) * (int(second.max()) + 1) > _LIMIT:
        first, second = rank(first), rank(second)
    return rank(first * (int(second.max()) + 1) + second)


def rank_rows(*columns: Tensor) -> Tensor:
    """Replace each row of a table with these columns by its lexicographic rank."""
    ranked = columns[0]
    for column in columns[1:]:
        ranked = rank_pairs(ranked, column)
    return ranked


def rank_multisets(row: Tensor, value: Tensor, num_rows: int) -> Tensor:
    """Replace each multiset by a rank; only equal multisets get equal ranks.

    Entry i has the value `value[i]` and is in multiset `row[i]`. A multiset becomes a
    sorted list of (value, count) items. Then every two neighbouring items are replaced
    by their rank as a pair, until one item is left.
    """
    if not row.numel():
        return torch.zeros(num_rows, dtype=torch.long, device=row.device)
    row, item = _items(row, value)
    length = counts_of(row, num_rows)
    while True:
        place = torch.arange(row.numel(), device=row.device)
        place -= pointers(counts_of(row, num_rows))[:-1].index_select(0, row)
        if not bool(place.any()):
            break
        first = (place % 2 == 0).nonzero().flatten()
        after = (first + 1).clamp(max=row.numel() - 1)
        paired = place.index_select(0, after) % 2 == 1
        second = torch.where(paired, item.index_select(0, after) + 1, 0)
        row, item = row[first], rank_pairs(item[first], second)
    state = torch.zeros(num_rows, dtype=torch.long, device=row.device)
    state[row] = item
    return rank_pairs(length, state)


def _items(row: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """For each distinct (row, value), return the row and the rank of (value, count)."""
    value = rank(value)
    size = int(value.max()) + 1
    key = row * size + value
    if int(row.max() + 1) * size <= 8 * key.numel():
        count = torch.bincount(key)
        key = count.nonzero().flatten()
        count = count[key]
    else:
        key, count = torch.unique(key, return_counts=True)
    row = torch.div(key, size, rounding_mode="floor")
    return row, rank_pairs(key - row * size, count)
