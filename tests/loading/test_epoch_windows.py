"""The windows of an epoch, on which `GraphLoader` and `gnnak train` are built."""

import gc
import threading
import weakref
from contextlib import nullcontext

import pytest
import torch

from gnnak import EgoNets, GraphLoader, SubgraphDrop
from gnnak.errors import SizeError
from gnnak.graphs.readers.pyg import FieldStore
from gnnak.loading import assembler
from gnnak.loading.assembler import Assembler, EpochWindows, Subgraphs
from gnnak.loading.graph_loader import Loader
from gnnak.loading.order import BatchSampler, Epochs
from gnnak.subgraphs.cached import cache_subgraphs
from gnnak.training import callbacks as callbacks_module
from gnnak.training.measure.bench import BenchOptions, bench
from gnnak.training.module import GraphTask
from gnnak.training.processes.machine import Machine
from gnnak.training.run import run
from tests.loading.test_loader import same_lists
from tests.loading.test_prefetch import ended
from tests.training.small import edge_counts, small_config, stopped_after

COUNT = 6
"""Number of batches of an epoch."""


@pytest.fixture
def windows(monkeypatch):
    """Windows of several batches, with subgraphs that are sampled in each epoch."""
    monkeypatch.setitem(assembler.WINDOW_BYTES, "cpu", 60_000)
    store = edge_counts(24).store
    cached = cache_subgraphs(store, EgoNets(1))
    source = Subgraphs(cached, drop=SubgraphDrop("random", 2))
    made = Assembler(FieldStore(store), source, 4, None, single=False)
    sampler = BatchSampler(torch.arange(24), 4, seed=0)
    return EpochWindows(made, sampler, seed=0)


def items_of(windows, epoch, first=0):
    found = [*windows.of_epoch(epoch, COUNT, first)]
    assert all(found)
    return [assembled.item for window in found for assembled in window]


@pytest.mark.parametrize("first", range(COUNT))
def test_epoch_windows_begin_at_any_batch(windows, first):
    assert 1 < len([*windows.of_epoch(3, COUNT)]) < COUNT
    whole, rest = items_of(windows, 3), items_of(windows, 3, first)
    same_lists(whole[first:], rest)


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


CPU = Machine("cpu")


def threads_of(streams):
    return [thread for stream in streams for thread in stream.threads]


class RecordedOrder(BatchSampler):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.seeded = []

    def of_epoch(self, epoch):
        self.seeded.append(epoch)
        return super().of_epoch(epoch)


class Progress:
    """A loader, and the current epoch as Lightning would report it."""

    def __init__(self, count, drop=None):
        store, self.epoch = edge_counts(12).store, 0
        self.sampler = RecordedOrder(torch.arange(12), 5, 0)
        source = Subgraphs(cache_subgraphs(store, EgoNets(1)), drop=drop)
        epochs = Epochs(lambda: self.epoch, count)
        self.loader = Loader(store, self.sampler, nullcontext, source, epochs=epochs)

    def items(self, epoch):
        """Take the items like Lightning, which does not exhaust the iterator."""
        self.epoch, iterator = epoch, iter(self.loader)
        return [next(iterator) for _ in range(len(self.loader))]


@pytest.mark.parametrize("limit", [1, 2**24])
def test_loader_prefetches_the_next_epoch_at_the_last_window(
    limit, streams, monkeypatch
):
    monkeypatch.setitem(assembler.WINDOW_BYTES, "cpu", limit)
    progress = Progress(3)
    iterator = iter(progress.loader)
    for _ in range(1 if limit > 1 else 3):
        assert len(streams) <= 1
        next(iterator)
    assert len(streams) == 2
    progress.loader.close()
    iterator.close()
    assert all(map(ended, threads_of(streams)))


@pytest.mark.parametrize("limit", [1, 2**24])
@pytest.mark.parametrize("drop", [None, SubgraphDrop("random", 2)])
def test_loader_yields_the_same_epochs_in_threads(drop, limit, streams, monkeypatch):
    monkeypatch.setitem(assembler.WINDOW_BYTES, "cpu", limit)
    progress = Progress(4, drop)
    found = [progress.items(epoch) for epoch in range(4)]
    assert progress.sampler.seeded == [0, 1, 2, 3]
    assert len(streams) == 4
    assert all(map(ended, threads_of(streams)))
    monkeypatch.setattr(assembler, "prefetch", lambda results, *_: results)
    plain = Progress(0, drop)
    for epoch, items in enumerate(found):
        same_lists(items, plain.items(epoch))


def test_loader_yields_the_current_epoch_if_another_was_prefetched(streams):
    progress, plain = Progress(100), Progress(0)
    for epoch in (0, 7, 7, 3):
        same_lists(progress.items(epoch), plain.items(epoch))
    progress.loader.close()
    assert all(map(ended, threads_of(streams)))


@pytest.mark.parametrize("drop", [None, SubgraphDrop("random", 2)])
def test_graph_loader_yields_the_same_epochs_in_threads(drop, streams, monkeypatch):
    options = {"subgraphs": EgoNets(1), "drop": drop, "shuffle": True}
    store = edge_counts(12).store
    loader = GraphLoader(store, 5, **options)
    found = [[*loader] for _ in range(3)]
    state = loader.state_dict()
    assert len(streams) == 4
    del loader
    assert all(map(ended, threads_of(streams)))
    monkeypatch.setattr(assembler, "prefetch", lambda results, *_: results)
    plain = GraphLoader(store, 5, **options)
    for batches in found:
        for one, other in zip(batches, plain, strict=True):
            assert torch.equal(one.x, other.x)
            assert torch.equal(one.subgraphs.root, other.subgraphs.root)
    assert plain.state_dict() == state


def losses_of(folder, **options):
    config = small_config(train__batch_size=5, model__name="gin-ak+-s", **options)
    return run(config, edge_counts(), folder, CPU)["curves"]["train_loss"]


@pytest.mark.heavy
def test_run_with_prefetched_epochs_is_equal_and_ends_threads(
    tmp_path, monkeypatch, streams
):
    threads = threading.active_count()
    found = losses_of(tmp_path / "prefetched", train__epochs=4)
    assert streams
    assert threading.active_count() == threads
    monkeypatch.setattr(assembler, "prefetch", lambda results, *_: results)
    assert found == losses_of(tmp_path / "plain", train__epochs=4)


def test_run_that_stops_early_ends_its_threads(tmp_path, streams):
    threads = threading.active_count()
    options = {"train__early_stop": 1, "train__learning_rate": 1e-12}
    few = losses_of(tmp_path, train__epochs=40, **options)
    assert len(few) < 40
    assert threading.active_count() == threads


@pytest.mark.parametrize("at", [0, 2, 5])
def test_run_that_fails_ends_its_threads(at, tmp_path, monkeypatch, streams):
    threads, steps, seen = threading.active_count(), GraphTask.training_step, []

    def fails(task, item, index):
        seen.append(index)
        if len(seen) > at:
            raise ValueError("enough")
        return steps(task, item, index)

    monkeypatch.setattr(GraphTask, "training_step", fails)
    with pytest.raises(ValueError, match="enough") as caught:
        losses_of(tmp_path, train__epochs=4)
    del caught
    assert streams
    assert threading.active_count() == threads


@pytest.mark.heavy
def test_run_that_is_resumed_sees_the_same_batches(tmp_path, monkeypatch, streams):
    monkeypatch.setattr(callbacks_module, "SAVE_SECONDS", 0.0)
    config = small_config(train__batch_size=5, model__name="gin-ak+-s", train__epochs=5)
    whole = run(config, edge_counts(), tmp_path / "whole", CPU)
    with stopped_after(2, monkeypatch):
        run(config, edge_counts(), tmp_path / "part", CPU)
    rest = run(config, edge_counts(), tmp_path / "part", CPU, resume=True)
    assert rest["curves"] == whole["curves"]


def test_bench_ends_its_threads(streams):
    threads = threading.active_count()
    config = small_config(train__batch_size=5)
    bench(config, edge_counts(), CPU, BenchOptions(epochs=1))
    assert streams
    assert threading.active_count() == threads
