"""Measure the seconds and the peak memory of each phase of a run."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from gnnak.device import peak_megabytes, reset_peak

Phase = Literal["data", "train", "evaluation"]


class Clock:
    """Adds up seconds per phase, excluding nested phases, and records peak memory."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.seconds: dict[str, float] = defaultdict(float)
        self.megabytes: dict[str, float] = {}
        self._inner = 0.0

    @contextmanager
    def time(self, phase: Phase) -> Iterator[None]:
        """Context manager: add the duration of the `with` block to `seconds[phase]`."""
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
        """Context manager: like `time`; also synchronise, and record peak memory."""
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


class Timing(Callback):
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._phase = ExitStack()

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._enter("train")

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._enter("evaluation")

    def on_validation_end(self, *_: Any) -> None:
        self._phase.close()

    on_exception = on_validation_end  # type: ignore[assignment]

    def _enter(self, phase: Phase) -> None:
        self._phase.close()
        self._phase.enter_context(self.clock.measure(phase))
