"""Test peak GPU memory with a fake of PyTorch's memory counters."""

import pytest
import torch

from gnnak.device import (
    graph_pools_changing,
    growth_measured,
    peak_megabytes,
    reset_peak,
)
from tests.gpu import needs_gpu

MB = 2**20
GPU = torch.device("cuda", 0)


class Counters:
    """Fake memory counters of a GPU with one captured CUDA graph."""

    def __init__(self, monkeypatch):
        self.now = self.peak = self.pool = 0
        calls = {
            "memory_allocated": lambda _: self.now,
            "max_memory_allocated": lambda _: self.peak,
            "reset_peak_memory_stats": lambda _: self.allocate(0),
            "memory_snapshot": self.snapshot,
        }
        for name, call in calls.items():
            monkeypatch.setattr(torch.cuda, name, call)

    def allocate(self, megabytes):
        self.peak = self.now + megabytes * MB

    def snapshot(self):
        default = {"device": 0, "segment_pool_id": (0, 0), "total_size": 99 * MB}
        other = {"device": 1, "segment_pool_id": (0, 7), "total_size": 99 * MB}
        graph = {"device": 0, "segment_pool_id": (0, 7), "total_size": self.pool * MB}
        return [each | {"allocated_size": 0} for each in (default, other, graph)]


@pytest.fixture
def counters(monkeypatch):
    return Counters(monkeypatch)


def test_peak_includes_the_pools_of_captured_graphs(counters):
    counters.pool = 10
    reset_peak(GPU)
    counters.allocate(3)
    assert peak_megabytes(GPU) == 13
    reset_peak(GPU)
    assert peak_megabytes(GPU) == 10


@pytest.mark.parametrize(("later", "peak"), [(9, 13), (14, 14)])
def test_peak_does_not_count_a_freed_pool_twice(later, peak, counters):
    counters.pool = 10
    reset_peak(GPU)
    counters.allocate(3)
    with graph_pools_changing(GPU):
        counters.pool = 0
    counters.allocate(later)
    assert peak_megabytes(GPU) == peak
    reset_peak(GPU)
    assert peak_megabytes(GPU) == 0


def test_growth_measured_preserves_the_earlier_peak(counters):
    reset_peak(GPU)
    counters.allocate(9)
    counters.now = 2 * MB
    with growth_measured(GPU) as grown:
        counters.allocate(5)
    assert grown == [5 * MB]
    assert peak_megabytes(GPU) == 9
    counters.allocate(20)
    assert peak_megabytes(GPU) == 22


@needs_gpu
def test_peak_of_a_gpu_is_the_largest_allocation():
    reset_peak("cuda")
    before = peak_megabytes("cuda")
    large = torch.empty(64 * MB, dtype=torch.uint8, device="cuda")
    with graph_pools_changing(torch.device("cuda")):
        del large
    assert peak_megabytes("cuda") == pytest.approx(before + 64, abs=1)
