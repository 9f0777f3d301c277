"""Peak memory of a stretch of code: of the GPU's allocator, or of the process."""

from pathlib import Path

import torch

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


def reset_peak(device: torch.device | str = "cpu") -> None:
    """Let the peak start anew at what is in use now."""
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif CLEAR.exists():
        CLEAR.write_text("5")


def peak_megabytes(device: torch.device | str = "cpu") -> float | None:
    """The peak since `reset_peak`, in MB (2^20 bytes).

    On a GPU what PyTorch allocated; on a CPU the resident memory of the whole process,
    which Linux counts; None where nobody does.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return _resident("VmHWM")


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
