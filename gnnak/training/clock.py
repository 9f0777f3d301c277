"""Seconds and peak memory of the phases of training, each for itself."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

from gnnak.memory import peak_megabytes, reset_peak

Phase = Literal["data", "train", "evaluation"]


class Clock:
    """Sums seconds by phase, and keeps the peak memory of training and evaluation.

    Phases may nest: the time of an inner one does not count for the outer one.

    Args:
        device: Where the work is done.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.seconds: dict[str, float] = defaultdict(float)
        self.megabytes: dict[str, float] = {}
        self._inner = 0.0

    @contextmanager
    def time(self, phase: Phase) -> Iterator[None]:
        """Count the seconds inside for this phase."""
        begin, outer = time.perf_counter(), self._inner
        self._inner = 0.0
        try:
            yield
        finally:
            elapsed = time.perf_counter() - begin
            self.seconds[phase] += elapsed - self._inner
            self._inner = outer + elapsed

    @contextmanager
    def measure(self, phase: Phase) -> Iterator[None]:
        """Count seconds, waiting for the device, and keep the peak memory."""
        reset_peak(self.device)
        with self.time(phase):
            try:
                yield
            finally:
                if self.device.type == "cuda":
                    torch.cuda.synchronize(self.device)
        peak = peak_megabytes(self.device)
        if peak is not None:
            self.megabytes[phase] = max(peak, self.megabytes.get(phase, 0.0))
