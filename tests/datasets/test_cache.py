import logging

import pytest
import torch

from gnnak.datasets.cache import cached_path, kept, only_once
from gnnak.datasets.drawing import counting_graphs
from gnnak.errors import FileFormatError, GraphError
from gnnak.graphs import GraphStore, parse_graph6, read_npz
from gnnak.graphs.reverse_edges import with_reverse_edges
from tests.graphs.graph_strategies import assert_same


def make():
    return counting_graphs(0, 6)


def test_kept_gives_the_same_graphs_when_made_and_when_read():
    path = cached_path("counting", "seed", 0)
    made = kept(path, make)
    assert path.is_file()
    assert_same(kept(path, pytest.fail), made)
    assert_same(read_npz(path), made)


def test_cached_path_depends_on_every_option():
    paths = {cached_path("pattern", "seed", seed) for seed in (0, 1)}
    assert len({*paths, cached_path("pattern"), cached_path("counting")}) == 4


def test_kept_names_a_damaged_file_and_says_what_to_do():
    path = cached_path("counting")
    kept(path, make)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(FileFormatError, match="delete this file of the cache") as told:
        kept(path, make)
    assert str(path) in str(told.value)


def test_kept_hands_graphs_out_if_the_cache_cannot_be_written(cache, caplog):
    cache.write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING, logger="gnnak"):
        assert len(kept(cached_path("counting"), make).store) == 6
    assert "not kept for the next time" in caplog.text


def test_only_once_is_undone_by_mirrored():
    store = parse_graph6("D~{\nCU\n@")
    once = only_once(store)
    assert once.num_edges.tolist() == [10, 3, 0]
    again = with_reverse_edges(once)
    assert torch.equal(again.num_edges, store.num_edges)
    one_way = GraphStore(torch.tensor([2]), torch.tensor([1]), torch.tensor([[0], [1]]))
    with pytest.raises(GraphError, match="an edge without a mirror"):
        only_once(one_way)
