import threading
import time
from unittest import mock

import pytest
import torch

from gnnak.loading.prefetch import Prefetcher, SideStream, prefetch, prefetching_paused
from tests.gpu import needs_gpu
from tests.loading.fake_stream import FakeStream


def ended(thread):
    thread.join(timeout=5)
    return not thread.is_alive()


def test_prefetch_on_a_cpu_returns_the_iterator_itself():
    results = iter([1, 2])
    assert prefetch(results, torch.device("cpu")) is results


@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_prefetcher_hands_over_every_result_in_order(count):
    stream = FakeStream()
    assert list(Prefetcher(iter(range(count)), stream)) == list(range(count))
    assert stream.handed_over == list(range(count))
    assert ended(stream.threads[0])


def test_prefetcher_computes_the_next_result_while_one_is_in_use():
    second_started = threading.Event()

    def results():
        yield 1
        second_started.set()
        yield 2

    taken = Prefetcher(results(), FakeStream())
    assert next(taken) == 1
    assert second_started.wait(timeout=5)
    assert list(taken) == [2]


def test_prefetcher_computes_only_a_few_results_ahead():
    count = 0

    def results():
        nonlocal count
        while True:
            count += 1
            yield count

    taken = Prefetcher(results(), FakeStream())
    assert [next(taken) for _ in range(3)] == [1, 2, 3]
    time.sleep(0.05)
    assert count <= 5
    taken.close()


def test_prefetcher_raises_an_error_of_its_thread_after_the_results_before_it():
    def results():
        yield 1
        yield 2
        raise ValueError("no more")

    stream = FakeStream()
    taken = Prefetcher(results(), stream)
    assert [next(taken), next(taken)] == [1, 2]
    with pytest.raises(ValueError, match="no more"):
        next(taken)
    assert ended(stream.threads[0])


def test_prefetcher_may_be_closed_by_its_own_thread():
    """As by the garbage collector, which runs in any thread."""
    closed = threading.Event()

    def results():
        yield 1
        taken.close()
        closed.set()
        yield 2

    taken = Prefetcher(results(), FakeStream())
    assert next(taken) == 1
    assert closed.wait(timeout=5)


@pytest.mark.parametrize("taken", [1, 3])
def test_prefetcher_closed_early_ends_its_thread(taken):
    stream = FakeStream()
    results = Prefetcher(iter(range(100)), stream)
    assert [next(results) for _ in range(taken)] == list(range(taken))
    results.close()
    assert not stream.threads[0].is_alive()


def test_prefetching_paused_waits_for_the_current_result_and_starts_no_other():
    log = []

    def results():
        for number in range(6):
            log.append("begin")
            time.sleep(0.01)
            log.append("end")
            yield number

    for _ in Prefetcher(results(), FakeStream()):
        with prefetching_paused():
            before = list(log)
            assert before.count("begin") == before.count("end")
            time.sleep(0.02)
            assert log == before


def test_hand_over_registers_each_block_of_memory_once(monkeypatch):
    one, other, stream, event = torch.arange(6), torch.arange(2), mock.Mock(), object()
    found = []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda *args: found.append(args))
    side = SideStream(torch.device("cuda"))
    side.hand_over([{"a": one[:2], "b": (one[2:], other)}, one.view(2, 3)], event)
    stream.wait_event.assert_called_once_with(event)
    registered, streams = zip(*found, strict=True)
    blocks = [tensor.untyped_storage().data_ptr() for tensor in registered]
    assert blocks == [one.data_ptr(), other.data_ptr()]
    assert streams == (stream, stream)


@needs_gpu
def test_prefetch_on_a_gpu_yields_the_results_of_the_iterator():
    device = torch.device("cuda")

    def results():
        for number in range(20):
            large = torch.full((500, 500), float(number), device=device)
            yield [(large @ large).double().sum()]

    found = [float(one) for (one,) in prefetch(results(), device)]
    assert found == [float(number**2) * 500**3 for number in range(20)]
