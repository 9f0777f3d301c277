import gc
import weakref

import torch
from hypothesis import given, settings

from gnnak.sampling.shared import CachedGraph, GraphCache
from tests.strategies import graphs

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_graph_cache_compares_contents_not_objects():
    cache = GraphCache()
    first = cache.get(PATH, 3, compared=False)
    assert cache.get(PATH.clone(), 3, compared=False) is first
    assert cache.get(PATH, 4, compared=False) is not first


@settings(max_examples=100, deadline=None)
@given(graphs(max_nodes=5), graphs(max_nodes=5))
def test_graph_cache_returns_the_cached_graph_only_for_equal_graphs(one, other):
    cache = GraphCache()
    same = torch.equal(one[0], other[0]) and one[1] == other[1]
    first = cache.get(*one, compared=False)
    assert (cache.get(*other, compared=False) is first) == same


def test_graph_cache_compares_dtypes():
    cache = GraphCache()
    first = cache.get(PATH, 3, compared=False)
    assert cache.get(PATH.int(), 3, compared=False) is not first


def test_graph_cache_compares_again_on_a_cpu():
    cache, edge_index = GraphCache(), PATH.clone()
    first = cache.get(edge_index, 3, compared=False)
    edge_index.numpy()[:, 3] = 0
    assert cache.get(edge_index, 3, compared=True) is not first


def test_graph_cache_releases_a_graph_whose_tensor_is_freed():
    cache, edge_index = GraphCache(), PATH.clone()
    cached = weakref.ref(cache.get(edge_index, 3, compared=False))
    assert cached() is not None
    del edge_index
    gc.collect()
    assert cached() is None


def test_graph_cache_keeps_a_held_graph_until_it_is_released():
    cache, edge_index = GraphCache(), PATH.clone()
    cache.hold()
    first = cache.get(edge_index, 3, compared=False)
    cached = weakref.ref(first)
    del edge_index
    gc.collect()
    assert cache.get(PATH, 3, compared=False) is first
    del first
    cache.release()
    gc.collect()
    assert cached() is None


def test_graph_cache_does_not_trust_a_tensor_whose_writes_are_not_counted(monkeypatch):
    """On a GPU, edges are not compared twice in a pass if their writes are counted."""

    class OnGPU(torch.Tensor):
        is_cuda = True

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    for inference in (False, True):
        with torch.inference_mode(inference):
            cache, edge_index = GraphCache(), PATH.clone().as_subclass(OnGPU)
            first = cache.get(edge_index, 3, compared=False)
            edge_index.data[:, 3] = 0
            compared = cache.get(edge_index, 3, compared=True) is not first
        assert compared == inference


@settings(max_examples=100, deadline=None)
@given(graphs(max_nodes=5), graphs(max_nodes=5))
def test_fingerprints_are_equal_exactly_for_equal_graphs(one, other):
    same = torch.equal(one[0], other[0]) and one[1] == other[1]
    fingerprints = [CachedGraph(*graph).fingerprint for graph in (one, other)]
    assert (fingerprints[0] == fingerprints[1]) == same
