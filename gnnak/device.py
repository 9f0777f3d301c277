"""CUDA streams of this process, and the peak memory of a device."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import torch

SIDE_STREAMS = 16
"""Number of streams for kernels that run at the same time."""
_lock = Lock()
"""Locked while streams are created, so that all threads get the same streams."""


class OwnStreams(NamedTuple):
    prefetch: torch.cuda.Stream
    """Used by all prefetching threads: PyTorch reuses memory only within a stream."""
    capture: torch.cuda.Stream
    """CUDA graphs are captured on this stream."""
    side: tuple[torch.cuda.Stream, ...]
    """Independent kernels of a captured step run in parallel on these streams."""


def own_streams(device: torch.device) -> OwnStreams:
    """Return the streams of a GPU; every call in a process returns the same streams."""
    with _lock:
        return _streams_of(_index(device))


@contextmanager
def on_capture_stream(device: torch.device) -> Iterator[None]:
    """Context manager: run the block on a GPU's capture stream; no effect for a CPU."""
    if device.type != "cuda":
        yield
        return
    outside, stream = torch.cuda.current_stream(device), own_streams(device).capture
    stream.wait_stream(outside)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        outside.wait_stream(stream)


@cache
def _streams_of(index: int) -> OwnStreams:
    device = torch.device("cuda", index)
    streams = [torch.cuda.Stream(device) for _ in range(2 + SIDE_STREAMS)]
    assert len(set(streams)) == len(streams), "PyTorch has fewer streams than expected"
    return OwnStreams(streams[0], streams[1], tuple(streams[2:]))


STATUS = Path("/proc/self/status")
"""Linux file with the memory in use by this process (VmRSS) and its peak (VmHWM)."""
CLEAR = Path("/proc/self/clear_refs")
"""Linux resets the peak memory of this process if "5" is written to this file."""

_graph_pool_bytes: dict[int, int] = {}
"""For each GPU, the bytes that CUDA graphs use but PyTorch's peak counter misses."""
_earlier_peak: dict[int, int] = {}
"""For each GPU, the peak in bytes before the last reset of PyTorch's peak counter."""


def reset_peak(device: torch.device | str = "cpu") -> None:
    """Restart the measurement of `peak_megabytes` from the memory in use now."""
    device = torch.device(device)
    if device.type == "cuda":
        _restart_counter(_index(device), 0)
    elif CLEAR.exists():
        CLEAR.write_text("5")


def peak_megabytes(device: torch.device | str = "cpu") -> float | None:
    """Return the peak memory since `reset_peak`, in MB (2^20 bytes).

    For a CPU: the peak memory of the process on Linux, None on other systems.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return _peak_bytes(_index(device)) / 2**20
    return resident("VmHWM")


@contextmanager
def graph_pools_changing(device: torch.device) -> Iterator[None]:
    """Context manager: keep `peak_megabytes` right if memory of CUDA graphs changes."""
    index = _index(device)
    peak = _peak_bytes(index)
    try:
        yield
    finally:
        _restart_counter(index, peak)


@contextmanager
def growth_measured(device: torch.device) -> Iterator[list[int]]:
    """Context manager: yield a list; on exit, append peak memory growth in bytes."""
    index = _index(device)
    peak, start = _peak_bytes(index), torch.cuda.memory_allocated(index)
    torch.cuda.reset_peak_memory_stats(index)
    grown: list[int] = []
    try:
        yield grown
    finally:
        grown.append(torch.cuda.max_memory_allocated(index) - start)
        _earlier_peak[index] = peak


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


def _peak_bytes(index: int) -> int:
    peak = torch.cuda.max_memory_allocated(index) + _graph_pool_bytes.get(index, 0)
    return max(peak, _earlier_peak.get(index, 0))


def _restart_counter(index: int, earlier_peak: int) -> None:
    torch.cuda.reset_peak_memory_stats(index)
    _graph_pool_bytes[index] = _measure_graph_pools(index)
    _earlier_peak[index] = earlier_peak


def _measure_graph_pools(index: int) -> int:
    """Return the bytes that are reserved for CUDA graphs, but not allocated."""
    return sum(
        segment["total_size"] - segment["allocated_size"]
        for segment in torch.cuda.memory_snapshot()
        if segment["device"] == index and tuple(segment["segment_pool_id"]) != (0, 0)
    )


def resident(field: str) -> float | None:
    """Return VmRSS (memory in use) or VmHWM (peak) in MB; on Linux only, else None."""
    if not STATUS.exists():
        return None
    for line in STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return None
