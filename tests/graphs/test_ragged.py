"""Whole numbers in few bytes: the same numbers, and the same batches."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak.graphs import ragged
from gnnak.graphs.ragged import distinct, narrow, sort_pairs
from tests.graphs.graph_strategies import stores

EDGES = [127, 128, 2**15 - 1, 2**15, 2**31 - 1, 2**31]


@given(st.lists(st.integers(0, 2**40) | st.sampled_from(EDGES), max_size=5))
def test_narrow_keeps_every_number(numbers):
    values = torch.tensor(numbers, dtype=torch.long)
    found = narrow(values)
    assert torch.equal(found.long(), values)
    assert (found + torch.zeros(1, dtype=torch.long)).dtype == torch.long


@pytest.mark.parametrize(
    ("most", "bytes_each"), [*zip(EDGES, [1, 2, 2, 4, 4, 8], strict=True)]
)
def test_narrow_takes_no_more_bytes_than_needed(most, bytes_each):
    assert narrow(torch.tensor([0, most])).element_size() == bytes_each


@given(stores())
def test_a_narrow_store_makes_the_same_batches(store):
    positions = torch.arange(len(store)).flip(0)
    ours, theirs = (
        replace(store, edge_index=narrow(store.edge_index))[positions],
        store[positions],
    )
    assert ours.edge_index.dtype == torch.long
    assert torch.equal(ours.edge_index, theirs.edge_index)


@given(st.lists(st.integers(0, 2**40), max_size=9), st.booleans())
def test_sort_pairs_is_a_stable_sort(numbers, packed):
    key = torch.tensor(numbers, dtype=torch.long)
    value = torch.arange(key.numel()) * 3
    wanted, order = torch.sort(key, stable=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ragged, "FEW", 0 if packed else 100)
        for size in (2**40 + 1, 2**63):
            found, positions = sort_pairs(key, size)
            assert torch.equal(found, wanted)
            assert torch.equal(positions, order)
            found, values = sort_pairs(key, size, value, 27)
            assert torch.equal(found, wanted)
            assert torch.equal(values, value[order])
    assert torch.equal(distinct(key), key.unique())
