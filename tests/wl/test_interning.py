from collections import Counter

import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak.wl.interning import rank, rank_multisets, rank_pairs, rank_rows
from tests.wl.plain import classes

numbers = st.integers(0, 2**61)


@given(st.lists(numbers))
def test_rank_is_the_place_among_the_distinct_values(values):
    order = sorted(set(values))
    expected = [order.index(value) for value in values]
    assert rank(torch.tensor(values, dtype=torch.long)).tolist() == expected


@given(st.lists(st.tuples(numbers, numbers), min_size=1))
def test_rank_pairs_orders_pairs_even_where_keys_would_overflow(pairs):
    first, second = torch.tensor(pairs).T
    order = sorted(set(pairs))
    assert rank_pairs(first, second).tolist() == [order.index(pair) for pair in pairs]


def test_rank_rows_of_no_rows_is_empty():
    none = torch.zeros(0, dtype=torch.long)
    assert rank_rows(none, none, none).tolist() == []


@given(st.lists(st.lists(st.integers(0, 5), max_size=9), min_size=1, max_size=12))
def test_rank_multisets_are_equal_iff_the_multisets_are(rows):
    row = torch.tensor([i for i, r in enumerate(rows) for _ in r], dtype=torch.long)
    value = torch.tensor([v for r in rows for v in r], dtype=torch.long)
    ranks = rank_multisets(row, value, len(rows)).tolist()
    assert classes(ranks) == classes([Counter(r) for r in rows])


def test_rank_multisets_keeps_counts_lengths_and_empty_rows_apart():
    row = torch.tensor([0, 1, 1, 2, 2, 3])
    value = torch.tensor([7, 7, 7, 7, 9, 9])
    assert rank_multisets(row, value, 6).unique().numel() == 5


def test_rank_multisets_of_one_long_row():
    value = torch.randperm(1000)
    row = torch.tensor([0, 1]).repeat_interleave(1000)
    ranks = rank_multisets(row, torch.cat([value, value.flip(0)]), 2)
    assert ranks.tolist() == [0, 0]
