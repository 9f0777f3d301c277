"""The streams of this package never coincide, however many streams others take."""

from itertools import count
from threading import Thread

import pytest
import torch

from gnnak import device
from gnnak.device import own_streams
from gnnak.fast.step.recorder import GraphRecorder
from gnnak.loading.prefetch import SideStream
from tests.gpu import needs_gpu

GPU = torch.device("cuda", 0)


class FakeStream:
    """One of 32 device, taken in turn as PyTorch does."""

    taken = count()

    def __init__(self, device):
        self.number, self.device_index = next(FakeStream.taken) % 32, 0

    def __eq__(self, other):
        return self.number == other.number

    def __hash__(self):
        return self.number


@pytest.fixture
def fake_streams(monkeypatch):
    """Replace PyTorch's device, and forget those that were taken before."""
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    device._streams_of.cache_clear()
    yield
    device._streams_of.cache_clear()


@pytest.mark.parametrize("taken_before", [0, 20, 31])
def test_own_streams_are_all_different(fake_streams, taken_before):
    for _ in range(taken_before):
        torch.cuda.Stream(GPU)
    found = own_streams(GPU)
    assert len({found.prefetch, found.capture, *found.side}) == 2 + len(found.side)


def test_no_recorder_captures_on_the_stream_of_the_prefetching_thread(fake_streams):
    prefetch = own_streams(GPU).prefetch
    recorders = [GraphRecorder(GPU) for _ in range(100)]
    assert all(recorder.stream != prefetch for recorder in recorders)


def test_all_threads_get_the_same_streams(fake_streams):
    found = []
    threads = [Thread(target=lambda: found.append(own_streams(GPU))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each is found[0] for each in found)


@needs_gpu
def test_a_prefetching_thread_has_another_stream_than_captures():
    for _ in range(40):
        torch.cuda.Stream()
    with SideStream(torch.device("cuda")).activate():
        prefetch = torch.cuda.current_stream()
    assert all(
        GraphRecorder(torch.device("cuda")).stream != prefetch for _ in range(40)
    )
