"""Peak memory of a stretch of code on the CPU, from the Linux kernel's own count."""

from pathlib import Path

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


class PeakMemory:
    """Context that notes by how much the process grew at its peak inside.

    Linux only: the kernel keeps the peak of the resident set and resets it on demand.
    """

    megabytes: float

    def __enter__(self) -> "PeakMemory":
        CLEAR.write_text("5")
        self._before = _resident("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.megabytes = (_resident("VmHWM") - self._before) / 1024


def _resident(field: str) -> int:
    """A count of the process's memory, in kilobytes."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"the kernel does not tell {field}")
