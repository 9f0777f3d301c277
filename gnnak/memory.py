"""Measure peak memory: allocated by PyTorch on a GPU, or resident on a CPU.

Replaying a CUDA graph allocates nothing, so PyTorch's peak counter misses the memory in
the private pools of captured graphs. The functions here add it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")

_graph_pool_bytes: dict[int, int] = {}
"""Bytes in CUDA graph pools, by GPU, that PyTorch's peak counter does not include."""
_earlier_peak: dict[int, int] = {}
"""Peak bytes, by GPU, since `reset_peak` up to the last internal counter reset."""


def reset_peak(device: torch.device | str = "cpu") -> None:
    """Reset the peak to the memory in use now."""
    device = torch.device(device)
    if device.type == "cuda":
        _restart_counter(_index(device), 0)
    elif CLEAR.exists():
        CLEAR.write_text("5")


def peak_megabytes(device: torch.device | str = "cpu") -> float | None:
    """Return the peak memory since `reset_peak`, in MB (2^20 bytes).

    On a GPU, this is the memory allocated by PyTorch, including the pools of captured
    CUDA graphs. On a CPU, it is the resident memory of the process as Linux counts it,
    or None on other systems.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return _peak_bytes(_index(device)) / 2**20
    return _resident("VmHWM")


@contextmanager
def graph_pools_changing(device: torch.device) -> Iterator[None]:
    """Context for code that frees or reuses the memory pools of CUDA graphs.

    On exit the pool sizes are measured again, so that memory that moved out of a pool
    is not counted twice. The peak reached before is preserved.

    Args:
        device: A GPU.
    """
    index = _index(device)
    peak = _peak_bytes(index)
    try:
        yield
    finally:
        _restart_counter(index, peak)


@contextmanager
def growth_measured(device: torch.device) -> Iterator[list[int]]:
    """Context that measures by how many bytes the allocated memory grows at its peak.

    The peak reached before is preserved.

    Args:
        device: A GPU.

    Yields:
        An empty list, to which the growth in bytes is appended on exit.
    """
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
    """Return the index of a GPU; "cuda" without index is the current GPU."""
    return torch.cuda.current_device() if device.index is None else device.index


def _peak_bytes(index: int) -> int:
    """Return the peak since `reset_peak`, including CUDA graph pools."""
    peak = torch.cuda.max_memory_allocated(index) + _graph_pool_bytes.get(index, 0)
    return max(peak, _earlier_peak.get(index, 0))


def _restart_counter(index: int, earlier_peak: int) -> None:
    """Reset PyTorch's peak counter and measure the CUDA graph pools again."""
    torch.cuda.reset_peak_memory_stats(index)
    _graph_pool_bytes[index] = _measure_graph_pools(index)
    _earlier_peak[index] = earlier_peak


def _measure_graph_pools(index: int) -> int:
    """Return the bytes in CUDA graph pools that PyTorch does not count as allocated."""
    return sum(
        segment["total_size"] - segment["allocated_size"]
        for segment in torch.cuda.memory_snapshot()
        if segment["device"] == index and tuple(segment["segment_pool_id"]) != (0, 0)
    )


class PeakMemory:
    """Context that measures the peak growth of the process's memory; Linux only."""

    megabytes: float
    """Peak growth of the resident memory in MB, set on exit."""

    def __enter__(self) -> "PeakMemory":
        reset_peak()
        self._before = _resident("VmRSS") or 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self.megabytes = (_resident("VmHWM") or 0.0) - self._before


def _resident(field: str) -> float | None:
    """Return a memory field of /proc/self/status in MB; None if it does not exist."""
    if not STATUS.exists():
        return None
    for line in STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return None
