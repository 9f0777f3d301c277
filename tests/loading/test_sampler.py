import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak.loading.order import BatchSampler


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
