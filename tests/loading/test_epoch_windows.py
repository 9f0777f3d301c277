"""The windows of an epoch, on which `GraphLoader` and `gnnak train` are built."""

import gc
import weakref

import pytest
import torch

from gnnak import EgoNets, GraphLoader, SubgraphDrop
from gnnak.errors import SizeError
from gnnak.graphs.readers.pyg_fields import FieldStore
from gnnak.loading import assembler as assembler_module
from gnnak.loading.assembler import Assembler, EpochWindows, Subgraphs
from gnnak.loading.graph_loader import Loader
from gnnak.loading.order import BatchSampler
from gnnak.subgraphs.cached import cache_subgraphs
from tests.loading.test_loader import same_items
from tests.training.small import edge_counts

COUNT = 6
"""Number of batches of an epoch."""


@pytest.fixture
def windows(monkeypatch):
    """Windows of several batches, with subgraphs that are sampled in each epoch."""
    monkeypatch.setitem(assembler_module.WINDOW_BYTES, "cpu", 60_000)
    store = edge_counts(24).store
    cached = cache_subgraphs(store, EgoNets(1))
    source = Subgraphs(cached, drop=SubgraphDrop("random", 2))
    assembler = Assembler(FieldStore(store), source, 4, None, single=False)
    sampler = BatchSampler(torch.arange(24), 4, seed=0)
    return EpochWindows(assembler, sampler, seed=0, reseed=True)


def items_of(windows, epoch, first=0):
    found = [*windows.of_epoch(epoch, COUNT, first)]
    assert all(found)
    return [assembled.item for window in found for assembled in window]


@pytest.mark.parametrize("first", range(COUNT))
def test_epoch_windows_begin_at_any_batch(windows, first):
    assert 1 < len([*windows.of_epoch(3, COUNT)]) < COUNT
    whole, rest = items_of(windows, 3), items_of(windows, 3, first)
    for one, other in zip(whole[first:], rest, strict=True):
        same_items(one, other)


def out_of_memory(*_: object) -> None:
    raise torch.OutOfMemoryError("too much")


def test_graph_loader_names_a_batch_that_is_too_large_for_the_memory(monkeypatch):
    loader = GraphLoader(edge_counts(24).store, 5)
    monkeypatch.setattr(Assembler, "assemble", out_of_memory)
    with pytest.raises(SizeError, match="a batch of 5 graphs does not fit into the"):
        next(iter(loader))


def test_loader_does_not_convert_an_error_of_too_little_memory(monkeypatch):
    loader = Loader(edge_counts(24).store, BatchSampler(torch.arange(24), 5))
    monkeypatch.setattr(Assembler, "assemble", out_of_memory)
    with pytest.raises(torch.OutOfMemoryError, match="too much"):
        next(iter(loader))


@pytest.mark.parametrize("kind", ["GraphLoader", "Loader"])
def test_loaders_free_their_graphs_without_garbage_collection(kind):
    store = edge_counts.__wrapped__(24).store
    if kind == "GraphLoader":
        loader = GraphLoader(store, 5, shuffle=True)
    else:
        loader = Loader(store, BatchSampler(torch.arange(24), 5))
    gc.collect()
    gc.disable()
    try:
        assert sum(1 for _ in loader) == 5
        gone = weakref.ref(store)
        del store, loader
        assert gone() is None
    finally:
        gc.enable()


class Work:
    """Logs when it is started and closed."""

    def __init__(self, epoch, log):
        self.epoch, self.log = epoch, log
        log.append(f"start {epoch}")

    def close(self):
        self.log.append(f"close {self.epoch}")


def test_at_most_one_epoch_is_prefetched_and_closed_if_another_is_needed(windows):
    log = []
    windows._start = lambda epoch: Work(epoch, log)
    assert windows._take(0).epoch == 0
    windows._prefetch(1)
    assert windows._take(1).epoch == 1
    windows.close()
    assert log == ["start 0", "start 1"]
    windows._prefetch(1)
    assert windows._take(5).epoch == 5
    assert log[2:] == ["start 1", "close 1", "start 5"]
    windows._prefetch(6)
    windows._prefetch(7)
    windows.close()
    windows.close()
    assert log[5:] == ["start 6", "close 6", "start 7", "close 7"]
