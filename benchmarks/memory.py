"""Measure the growth of this process's memory."""

from gnnak.device import reset_peak, resident


class PeakMemory:
    """Context manager: measure by how much this process's memory grows; Linux only."""

    megabytes: float
    """Peak of the resident memory within the `with` block minus the memory at its
    start."""

    def __enter__(self) -> "PeakMemory":
        reset_peak()
        self._before = resident("VmRSS") or 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self.megabytes = (resident("VmHWM") or 0.0) - self._before
