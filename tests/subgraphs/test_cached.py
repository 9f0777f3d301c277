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
def test_cached_subgraphs_of_a_batch_equal_extraction(num_hops, indices):
    store, extractor = corner_cases(), EgoNets(num_hops)
    positions = torch.tensor(indices, dtype=torch.long)
    batch = store[positions]
    cached = cache_subgraphs(store, extractor)[positions]
    wanted = extractor(batch.edge_index, batch.num_nodes)
    for name in FIELDS:
        assert torch.equal(getattr(cached, name), getattr(wanted, name)), name
    assert (cached.num_nodes, cached.num_edges) == (wanted.num_nodes, wanted.num_edges)
    assert (cached.max_hop, cached.in_order) == (wanted.max_hop, wanted.in_order)
    cached.check(batch.edge_index, batch.num_nodes)


def test_cache_subgraphs_does_not_depend_on_the_chunk_size(monkeypatch):
    store = corner_cases()
    whole = cache_subgraphs(store, EgoNets(2))
    monkeypatch.setattr(cached_module, "CHUNK", 3)
    parts = cache_subgraphs(store, EgoNets(2))
    for name in ("num_copies", "num_edge_copies", *FIELDS[1:]):
        assert torch.equal(getattr(parts, name), getattr(whole, name)), name


def test_cache_if_small_returns_none_for_random_or_large_subgraphs():
    store = corner_cases()
    assert cache_if_small(store, RandomWalks()) is None
    assert cache_if_small(store, EgoNets(2), limit=10) is None
    cached = cache_if_small(store, EgoNets(2))
    assert cached is not None
    assert all(getattr(cached, name).dtype == torch.int8 for name in FIELDS[-5:])


def test_cache_if_small_assumes_int32_not_the_dtype_of_the_sample():
    store = corner_cases()
    cached = cache_subgraphs(store, EgoNets(2))
    assert cached.int32_bytes == 4 * (3 * cached.node.numel() + 3 * cached.edge.numel())
    assert cache_if_small(store, EgoNets(2), limit=cached.int32_bytes) is not None
    assert cache_if_small(store, EgoNets(2), limit=cached.int32_bytes - 1) is None


def test_cache_if_small_is_none_for_an_empty_store_or_too_many_copies():
    none = torch.zeros(0, dtype=torch.long)
    store = GraphStore(none, none, torch.zeros(2, 0, dtype=torch.long))
    assert cache_if_small(store, EgoNets(1)) is None
    assert cache_if_small(corner_cases(), EgoNets(2, copy_limit=20)) is None
