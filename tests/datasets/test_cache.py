import logging

import pytest
import torch

from gnnak.datasets.cache import cached_path, load_cached, one_direction
from gnnak.datasets.counting import counting_graphs
from gnnak.errors import FileFormatError, GraphError
from gnnak.graphs import GraphStore, parse_graph6, read_npz
from gnnak.graphs.reverse_edges import with_reverse_edges
from tests.graphs.graph_strategies import assert_same


def make():
    return counting_graphs(0, 6)


def test_load_cached_gives_the_same_graphs_when_created_and_when_read():
    path = cached_path("counting", "seed", 0)
    made = load_cached(path, make)
    assert path.is_file()
    assert_same(load_cached(path, pytest.fail), made)
    assert_same(read_npz(path), made)


def test_cached_path_depends_on_every_option():
    paths = {cached_path("pattern", "seed", seed) for seed in (0, 1)}
    assert len({*paths, cached_path("pattern"), cached_path("counting")}) == 4


def test_load_cached_names_a_damaged_file():
    path = cached_path("counting")
    load_cached(path, make)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(FileFormatError, match="delete this cache file") as told:
        load_cached(path, make)
    assert str(path) in str(told.value)


def test_load_cached_returns_graphs_if_the_cache_cannot_be_written(cache, caplog):
    cache.write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING, logger="gnnak"):
        assert len(load_cached(cached_path("counting"), make).store) == 6
    assert "graphs were not cached" in caplog.text


def test_one_direction_is_the_inverse_of_with_reverse_edges():
    store = parse_graph6("D~{\nCU\n@")
    once = one_direction(store)
    assert once.num_edges.tolist() == [10, 3, 0]
    again = with_reverse_edges(once)
    assert torch.equal(again.num_edges, store.num_edges)
    one_way = GraphStore(torch.tensor([2]), torch.tensor([1]), torch.tensor([[0], [1]]))
    with pytest.raises(GraphError, match="an edge without its reverse edge"):
        one_direction(one_way)
