import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak import EgoNets
from gnnak.subgraphs.kept import keep_all
from gnnak.training.clock import Clock
from gnnak.training.loader import BatchSampler, make_loader
from tests.training.small import triangles


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 4))
def test_processes_together_see_what_one_sees(count, size, processes):
    positions = torch.arange(count) + 100
    shares = [
        list(BatchSampler(positions, size, lambda: 7, rank, processes))
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


def test_a_last_batch_of_one_graph_joins_the_one_before():
    assert BatchSampler(torch.arange(9), 4).sizes == [4, 5]
    assert BatchSampler(torch.arange(10), 4).sizes == [4, 4, 2]
    assert BatchSampler(torch.arange(1), 4).sizes == [1]


def test_order_follows_from_its_seed():
    seeds = iter([1, 1, 2])
    sampler = BatchSampler(torch.arange(50), 50, lambda: next(seeds))
    first, again, other = (next(iter(sampler)).tolist() for _ in range(3))
    assert first == again != other
    assert next(iter(BatchSampler(torch.arange(5), 5))).tolist() == [0, 1, 2, 3, 4]


def test_make_loader_gives_whole_batches_and_tells_the_seconds():
    data, clock = triangles(4), Clock()
    state = torch.get_rng_state()
    loader = make_loader(data.store, BatchSampler(torch.arange(8), 3), clock)
    batches = [item.batch for item in loader if item.subgraphs is None]
    assert [batch.num_graphs for batch in batches] == [3, 3, 2]
    assert clock.seconds["data"] > 0
    assert torch.equal(torch.get_rng_state(), state)
    assert batches[1].y.tolist() == [1, 0, 1]


def test_make_loader_gives_kept_subgraphs_with_their_batch():
    data = triangles(4)
    kept = keep_all(data.store, EgoNets(1))
    sampler = BatchSampler(torch.arange(8), 3)
    for item in make_loader(data.store, sampler, Clock(), kept):
        item.subgraphs.check(item.batch.edge_index, item.batch.num_nodes)


@pytest.mark.parametrize("phase", ["train", "evaluation"])
def test_clock_counts_an_inner_phase_once(phase, monkeypatch):
    now = iter([0.0, 1.0, 3.0, 10.0])
    monkeypatch.setattr("gnnak.training.clock.time.perf_counter", lambda: next(now))
    clock = Clock()
    with clock.time(phase), clock.time("data"):
        pass
    assert dict(clock.seconds) == {"data": 2.0, phase: 8.0}
