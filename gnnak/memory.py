"""Peak memory of a stretch of code: of the GPU's allocator, or of the process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")

_unseen: dict[int, int] = {}
"""Bytes of each GPU that its counter of the peak does not see."""
_before: dict[int, int] = {}
"""The peak of each GPU until its counter last started anew on the way."""


def reset_peak(device: torch.device | str = "cpu") -> None:
    """Let the peak start anew at what is in use now."""
    device = torch.device(device)
    if device.type == "cuda":
        _count_from(_index(device), 0)
    elif CLEAR.exists():
        CLEAR.write_text("5")


def peak_megabytes(device: torch.device | str = "cpu") -> float | None:
    """The peak since `reset_peak`, in MB (2^20 bytes).

    On a GPU what PyTorch allocated, with what graphs captured before hold for their
    replays; on a CPU the resident memory of the whole process, which Linux counts;
    None where nobody does.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return _peak_bytes(_index(device)) / 2**20
    return _resident("VmHWM")


@contextmanager
def graph_pools_changing(device: torch.device) -> Iterator[None]:
    """Inside, what captured graphs hold is given back, or used by others.

    What is held is counted anew, and it is not counted twice meanwhile. The peak until
    then still counts.

    Args:
        device: A GPU.
    """
    index = _index(device)
    peak = _peak_bytes(index)
    try:
        yield
    finally:
        _count_from(index, peak)


@contextmanager
def growth_measured(device: torch.device) -> Iterator[list[int]]:
    """Inside, notes by how many bytes what is in use grows at its peak.

    The peak until then still counts.

    Args:
        device: A GPU.
    """
    index = _index(device)
    peak, start = _peak_bytes(index), torch.cuda.memory_allocated(index)
    torch.cuda.reset_peak_memory_stats(index)
    grown: list[int] = []
    try:
        yield grown
    finally:
        grown.append(torch.cuda.max_memory_allocated(index) - start)
        _before[index] = peak


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


def _peak_bytes(index: int) -> int:
    peak = torch.cuda.max_memory_allocated(index) + _unseen.get(index, 0)
    return max(peak, _before.get(index, 0))


def _count_from(index: int, before: int) -> None:
    torch.cuda.reset_peak_memory_stats(index)
    _unseen[index], _before[index] = _held_by_captured(index), before


def _held_by_captured(index: int) -> int:
    """Bytes in the pools of captured graphs that no tensor outside of them takes.

    A replay allocates nothing, so that the peak does not see what it computes in.
    """
    return sum(
        segment["total_size"] - segment["allocated_size"]
        for segment in torch.cuda.memory_snapshot()
        if segment["device"] == index and tuple(segment["segment_pool_id"]) != (0, 0)
    )


class PeakMemory:
    """Context that notes by how much the process grew at its peak; Linux only."""

    megabytes: float

    def __enter__(self) -> "PeakMemory":
        reset_peak()
        self._before = _resident("VmRSS") or 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self.megabytes = (_resident("VmHWM") or 0.0) - self._before


def _resident(field: str) -> float | None:
    """A count of the process's memory, in MB."""
    if not STATUS.exists():
        return None
    for line in STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return None
