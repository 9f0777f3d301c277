"""Peak memory of a stretch of code: of the GPU's allocator, or of the process."""

from pathlib import Path

import torch

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")

_unseen: dict[torch.device, int] = {}
"""Bytes of each GPU that its counter of the peak does not see."""


def reset_peak(device: torch.device | str = "cpu") -> None:
    """Let the peak start anew at what is in use now."""
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        _unseen[device] = _held_by_captured(device)
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
        peak = torch.cuda.max_memory_allocated(device)
        return (peak + _unseen.get(device, 0)) / 2**20
    return _resident("VmHWM")


def _held_by_captured(device: torch.device) -> int:
    """Bytes in the pools of captured graphs that no tensor outside of them takes.

    A replay allocates nothing, so that the peak does not see what it computes in.
    """
    index = torch.cuda.current_device() if device.index is None else device.index
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
