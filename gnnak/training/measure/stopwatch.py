"""Seconds and peak memory of epochs, as they run."""

import time
from collections.abc import Callable
from statistics import median

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from gnnak.memory import peak_megabytes, reset_peak

Tell = Callable[[str], None]
"""Told what is going on, in a few words."""


def wait(device: torch.device) -> float:
    """The time, once the device has done what it was asked to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class Stopwatch(Callback):
    """Takes the time of each epoch from the end of the one before.

    Whatever an epoch needs is so part of it, loaders included; evaluation is timed for
    itself.

    Args:
        warm_up: How many epochs go by before any is timed.
        epochs: How many are timed.
        tell: Told which epoch runs; None = nobody is told.
    """

    def __init__(self, warm_up: int, epochs: int, tell: Tell | None = None) -> None:
        self.warm_up, self.epochs, self.tell = warm_up, epochs, tell
        self.training: list[float] = []
        self.evaluation: list[float] = []
        self.megabytes: float | None = None
        self._since: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds of an epoch's training: the median."""
        return median(self.training)

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """The first epoch begins."""
        self._since = wait(trainer.strategy.root_device)

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        """An epoch is about to begin: the peak of memory starts anew."""
        reset_peak(trainer.strategy.root_device)
        if self.tell is not None:
            epoch, total = trainer.current_epoch + 1, trainer.max_epochs
            kind = " (warm-up)" if epoch <= self.warm_up else ""
            self.tell(f"epoch {epoch} of {total}{kind}")

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Training has ended, evaluation begins."""
        self._end_training(trainer)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Evaluation has ended."""
        now = wait(trainer.strategy.root_device)
        if self._is_timed(trainer) and self._since is not None:
            self.evaluation.append(now - self._since)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        """All has ended; the next epoch may begin."""
        if len(self.training) <= trainer.current_epoch - self.warm_up:
            self._end_training(trainer)
        self._since = wait(trainer.strategy.root_device)

    def _end_training(self, trainer: Trainer) -> None:
        device = trainer.strategy.root_device
        now = wait(device)
        if self._is_timed(trainer) and self._since is not None:
            self.training.append(now - self._since)
            peak = peak_megabytes(device)
            if peak is not None:
                self.megabytes = max(peak, self.megabytes or 0.0)
        self._since = now

    def _is_timed(self, trainer: Trainer) -> bool:
        return 0 <= trainer.current_epoch - self.warm_up < self.epochs
