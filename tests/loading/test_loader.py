from contextlib import nullcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak import EgoNets
from gnnak.loading import assembler
from gnnak.loading.assembler import Subgraphs
from gnnak.loading.graph_loader import Loader
from gnnak.loading.items import Item
from gnnak.loading.order import BatchSampler, Epochs
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.random_roots import is_cover
from gnnak.subgraphs.cached import cache_subgraphs
from gnnak.training.timing import Clock
from tests.graphs.graph_strategies import assert_same
from tests.loading.test_windows import assert_same_records
from tests.training.small import triangles


def test_loader_yields_whole_batches_and_times_them():
    data, clock = triangles(4), Clock()
    state = torch.get_rng_state()
    sampler = BatchSampler(torch.arange(8), 3)
    loader = Loader(data.store, sampler, lambda: clock.time("data"))
    batches = [item.batch for item in loader if item.subgraphs is None]
    assert [batch.num_graphs for batch in batches] == [3, 3, 2]
    assert clock.seconds["data"] > 0
    assert torch.equal(torch.get_rng_state(), state)
    assert batches[1].y.tolist() == [1, 0, 1]


def test_loader_yields_cached_subgraphs_with_their_batch():
    data = triangles(4)
    cached = cache_subgraphs(data.store, EgoNets(1))
    sampler = BatchSampler(torch.arange(8), 3)
    for item in Loader(data.store, sampler, subgraphs=Subgraphs(cached)):
        item.subgraphs.check(item.batch.edge_index, item.batch.num_nodes)


def same_items(first, second):
    assert_same(first.batch, second.batch)
    assert_same_records(first.subgraphs, second.subgraphs, groups=False)


def same_lists(first, second):
    for one, other in zip(first, second, strict=True):
        same_items(one, other)


@pytest.mark.parametrize("limit", [1, 40_000, 2**24])
def test_loader_yields_the_same_batches_for_every_window_size(limit, monkeypatch):
    monkeypatch.setitem(assembler.WINDOW_BYTES, "cpu", limit)
    store = triangles(4).store
    cached = cache_subgraphs(store, EgoNets(1))
    sampler = BatchSampler(torch.arange(8), 3)
    items = list(Loader(store, sampler, nullcontext, Subgraphs(cached)))
    assert len(items) == len(Loader(store, sampler)) == 3
    for item, positions in zip(items, sampler.of_epoch(0), strict=True):
        same_items(item, Item(store[positions], cached[positions]))


def test_loader_of_single_batches_has_no_windows(monkeypatch):
    monkeypatch.delattr("gnnak.loading.assembler.make_window")
    sampler = BatchSampler(torch.arange(8), 3)
    assert len(list(Loader(triangles(4).store, sampler, single=True))) == 3


@pytest.fixture(params=[1, 2**24])
def window_bytes(request, monkeypatch):
    """Windows of one batch each, and one window of all batches."""
    monkeypatch.setitem(assembler.WINDOW_BYTES, "cpu", request.param)


@pytest.mark.usefixtures("window_bytes")
@pytest.mark.parametrize("strategy", ["random", "farthest", "min-set-cover"])
def test_loader_samples_covers_that_depend_only_on_the_seed(strategy):
    store, seeds = triangles(8).store, iter([1, 1, 2])
    cached = cache_subgraphs(store, EgoNets(1))
    sampler = BatchSampler(torch.arange(16), 5)
    drop = SubgraphDrop(strategy, 2)
    source = Subgraphs(cached, drop=drop)
    epochs = Epochs(seeds.__next__, 0)
    loader = Loader(store, sampler, nullcontext, source, epochs=epochs)
    first, again, other = (list(loader) for _ in range(3))
    same_lists(first, again)
    roots = [[i.subgraphs.root.tolist() for i in epoch] for epoch in (first, other)]
    assert roots[0] != roots[1]
    for item, positions in zip(first, sampler.of_epoch(0), strict=True):
        full = cached[positions]
        chosen = torch.zeros(full.num_subgraphs, dtype=torch.bool)
        chosen[item.subgraphs.root] = True
        assert is_cover(full, item.batch.num_nodes, chosen, 2)
        assert item.subgraphs.num_subgraphs < full.num_subgraphs


@pytest.mark.usefixtures("window_bytes")
@pytest.mark.parametrize(
    ("graphs", "sizes"), [(16, [6, 6, 4]), (13, [6, 7]), (12, [6, 6])]
)
def test_loader_pads_all_but_a_larger_last_batch(graphs, sizes):
    store = triangles(8).store
    cached = cache_subgraphs(store, EgoNets(1))
    sampler = BatchSampler(torch.arange(graphs), 6)
    loader = Loader(store, sampler, nullcontext, Subgraphs(cached), padded=True)
    for _ in range(2):
        items = list(loader)
        padded = [item.shape is not None for item in items]
        assert padded == [size <= 6 for size in sizes]
        real = [
            int(i.batch.real.graphs) if i.shape else i.batch.num_graphs for i in items
        ]
        assert real == sizes
    assert len({item.shape for item in items if item.shape}) == 1


def test_loader_of_fewer_graphs_than_a_batch_pads_nothing():
    store = triangles(2).store
    loader = Loader(store, BatchSampler(torch.arange(4), 6), padded=True)
    assert [item.shape for item in loader] == [None]


@pytest.mark.parametrize("phase", ["train", "evaluation"])
def test_clock_counts_an_inner_phase_once(phase, monkeypatch):
    now = iter([0.0, 1.0, 3.0, 10.0])
    monkeypatch.setattr("gnnak.training.timing.time.perf_counter", lambda: next(now))
    clock = Clock()
    with clock.time(phase), clock.time("data"):
        pass
    assert dict(clock.seconds) == {"data": 2.0, phase: 8.0}


def test_loader_extracts_subgraphs_that_are_not_cached():
    store, extractor = triangles(4).store, EgoNets(1)
    sampler = BatchSampler(torch.arange(8), 3)
    source = Subgraphs(extractor=extractor)
    for item in Loader(store, sampler, nullcontext, source, single=True):
        wanted = extractor(item.batch.edge_index, item.batch.num_nodes)
        assert_same_records(item.subgraphs, wanted, groups=False)


@pytest.mark.usefixtures("window_bytes")
@pytest.mark.parametrize("drop", [None, SubgraphDrop("random", 2)])
def test_loader_extracts_for_several_batches_at_once(drop):
    store = triangles(8).store
    extractor, sampler = EgoNets(1), BatchSampler(torch.arange(16), 6)
    subgraphs = Subgraphs(extractor=extractor, drop=drop)
    items = list(Loader(store, sampler, nullcontext, subgraphs))
    assert len(items) == 3
    for item, positions in zip(items, sampler.of_epoch(0), strict=True):
        batch = store[positions]
        full = extractor(batch.edge_index, batch.num_nodes)
        if drop is None:
            same_items(item, Item(batch, full))
            continue
        chosen = torch.zeros(full.num_subgraphs, dtype=torch.bool)
        chosen[item.subgraphs.root] = True
        assert is_cover(full, item.batch.num_nodes, chosen, 2)


def test_estimated_memory_shares_are_exact_for_graphs_of_one_size(monkeypatch):
    monkeypatch.setattr(assembler, "EXTRACTION_FACTOR", 1)
    store, extractor = triangles(8).store, EgoNets(2)
    wanted = assembler.memory_shares(store, cache_subgraphs(store, extractor)).mean()
    found = assembler.estimated_memory_shares(
        store, lambda graphs, _: extractor(graphs.edge_index, graphs.num_nodes)
    )
    torch.testing.assert_close(found, wanted.expand(len(store)))


def test_estimated_memory_shares_extract_no_more_than_a_batch():
    store, seen = triangles(8).store, []

    def note(graphs, _):
        seen.append(graphs.num_graphs)

    assembler.estimated_memory_shares(store, note, most=2)
    assert seen == [2]


@pytest.mark.parametrize(
    ("per_graph", "batches"), [(0.01, 25), (0.1, 4), (0.24, 4), (0.5, 2), (3.0, 1)]
)
def test_windows_have_several_batches_if_they_fit_in_four_budgets(per_graph, batches):
    share = torch.full((400,), per_graph, dtype=torch.double)
    share = assembler.for_several_batches(share, batch_size=4)
    # A little less than the assembler, so that rounding errors decide nothing.
    windows = assembler.into_windows(torch.arange(400).split(4), 0.999 * share)
    assert len(next(windows)) == batches


def test_memory_shares_count_only_the_sampled_subgraphs():
    store, extractor = triangles(64).store, EgoNets(2)
    cached, drop = cache_subgraphs(store, extractor), SubgraphDrop("random", 3)

    def sample(graphs, positions):
        return drop(cached[positions], graphs.edge_index)

    part = assembler.sampled_fraction(store, cached, sample)
    assert assembler.MIN_SAMPLED_FRACTION < part < 0.9
    fraction = assembler.sampled_fraction(store, cached, lambda _, where: cached[where])
    assert fraction == 1
    few, all_of_them = (
        assembler.memory_shares(store, cached, drop, p) for p in (part, 1)
    )
    assert (few < all_of_them).all()
    others = assembler.memory_shares(store, None, drop)
    torch.testing.assert_close(few - others, part * (all_of_them - others))
    assert (others > assembler.memory_shares(store, None)).all()
    least = assembler.memory_shares(store, cached, drop, 0.01)
    wanted = assembler.MIN_SAMPLED_FRACTION * (all_of_them - others)
    torch.testing.assert_close(least - others, wanted)


def test_sampled_fraction_uses_no_more_graphs_than_a_batch():
    store, seen = triangles(64).store, []
    cached = cache_subgraphs(store, EgoNets(1))

    def note(_, positions):
        seen.append(len(positions))
        return cached[positions]

    assert assembler.sampled_fraction(store, cached, note, most=3) == 1
    assert seen == [3]


def test_sampled_fraction_of_an_empty_store_is_one():
    store = triangles(4).store.subset([])
    cached = cache_subgraphs(store, EgoNets(1))
    fraction = assembler.sampled_fraction(store, cached, lambda _, where: cached[where])
    assert fraction == 1


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 4))
def test_processes_together_see_the_batches_of_one_process(count, size, processes):
    positions = torch.arange(count) + 100
    shares = [
        BatchSampler(positions, size, 7, rank, processes).of_epoch(0)
        for rank in range(processes)
    ]
    assert len({len(share) for share in shares}) == 1
    together = [torch.cat(parts) for parts in zip(*shares, strict=True)]
    assert torch.cat(together).sort().values.tolist() == positions.tolist()
    least = min(2 * processes, count)
    assert all(len(batch) >= min(least, size) for batch in together)
    if processes == 1:
        return
    sizes = [len(batch) for batch in together]
    assert sizes == BatchSampler(positions, size, None, 0, processes).sizes


def test_last_batch_of_one_graph_is_merged_into_the_one_before():
    assert BatchSampler(torch.arange(9), 4).sizes == [4, 5]
    assert BatchSampler(torch.arange(10), 4).sizes == [4, 4, 2]
    assert BatchSampler(torch.arange(1), 4).sizes == [1]


def test_order_depends_only_on_the_epoch():
    sampler = BatchSampler(torch.arange(50), 50, seed=0)
    first, other, again = (sampler.of_epoch(e)[0].tolist() for e in (1, 2, 1))
    assert first == again != other
    plain = BatchSampler(torch.arange(5), 5)
    assert plain.of_epoch(3)[0].tolist() == [0, 1, 2, 3, 4]
