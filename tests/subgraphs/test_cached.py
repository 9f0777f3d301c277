import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak import EgoNets, RandomWalks
from gnnak.graphs import GraphStore, from_pyg
from gnnak.subgraphs import cached as cached_module
from gnnak.subgraphs.cached import cache_if_small, cache_subgraphs
from gnnak.testing import small_graphs

FIELDS = ("root", "node", "subgraph", "hop", "edge_index", "edge")


def corner_cases() -> GraphStore:
    return from_pyg(list(small_graphs().values()))


@pytest.mark.parametrize("num_hops", [0, 1, 3])
@given(indices=st.lists(st.integers(0, 6), max_size=9))
@settings(max_examples=60)
def test_kept_subgraphs_of_a_batch_are_those_that_extraction_gives(num_hops, indices):
    store, extractor = corner_cases(), EgoNets(num_hops)
    positions = torch.tensor(indices, dtype=torch.long)
    batch = store[positions]
    kept = cache_subgraphs(store, extractor)[positions]
    wanted = extractor(batch.edge_index, batch.num_nodes)
    for name in FIELDS:
        assert torch.equal(getattr(kept, name), getattr(wanted, name)), name
    assert (kept.num_nodes, kept.num_edges) == (wanted.num_nodes, wanted.num_edges)
    kept.check(batch.edge_index, batch.num_nodes)


def test_keep_all_in_chunks_is_keep_all(monkeypatch):
    store = corner_cases()
    whole = cache_subgraphs(store, EgoNets(2))
    monkeypatch.setattr(cached_module, "CHUNK", 3)
    parts = cache_subgraphs(store, EgoNets(2))
    for name in ("num_copies", "num_edge_copies", *FIELDS[1:]):
        assert torch.equal(getattr(parts, name), getattr(whole, name)), name


def test_keep_if_small_keeps_no_random_and_no_large_ones():
    store = corner_cases()
    assert cache_if_small(store, RandomWalks()) is None
    assert cache_if_small(store, EgoNets(2), limit=10) is None
    kept = cache_if_small(store, EgoNets(2))
    assert kept is not None
    assert kept.num_bytes == 3 * kept.node.numel() + 3 * kept.edge.numel()


def test_keep_if_small_counts_on_wider_numbers_than_those_of_a_few_graphs():
    store = corner_cases()
    kept = cache_subgraphs(store, EgoNets(2))
    assert kept.num_bytes < 4 * kept.num_values
    assert cache_if_small(store, EgoNets(2), limit=4 * kept.num_values) is not None
    assert cache_if_small(store, EgoNets(2), limit=4 * kept.num_values - 1) is None


def test_keep_if_small_of_an_empty_store_keeps_nothing():
    none = torch.zeros(0, dtype=torch.long)
    store = GraphStore(none, none, torch.zeros(2, 0, dtype=torch.long))
    assert cache_if_small(store, EgoNets(1)) is None
