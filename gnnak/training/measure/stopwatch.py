"""Seconds and peak memory of training epochs.

By hand: Lightning's `Timer` sums over all epochs and does not synchronise.
"""

import time
from collections.abc import Callable
from statistics import median

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from gnnak.memory import peak_megabytes, reset_peak

Notify = Callable[[str], None]
"""Called with a short text about the progress."""


def synchronised_time(device: torch.device) -> float:
    """Synchronise with the device and return the time in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class Stopwatch(Callback):
    """Times each epoch from the end of the previous one to its own end.

    This includes everything that an epoch needs, such as the creation of loaders; the
    evaluation is timed separately.

    Args:
        warm_up: Number of epochs before the timed ones.
        epochs: Number of timed epochs.
        notify: Called with the number of each epoch; None = not called.
    """

    def __init__(self, warm_up: int, epochs: int, notify: Notify | None = None) -> None:
        self.warm_up, self.epochs, self.notify = warm_up, epochs, notify
        self.training: list[float] = []
        self.evaluation: list[float] = []
        self.megabytes: float | None = None
        self._since: float | None = None

    @property
    def seconds(self) -> float:
        """Median seconds of the training of an epoch."""
        return median(self.training)

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Start the time of the first epoch."""
        self._since = synchronised_time(trainer.strategy.root_device)

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Reset the peak memory and report the epoch."""
        reset_peak(trainer.strategy.root_device)
        if self.notify is not None:
            epoch, total = trainer.current_epoch + 1, trainer.max_epochs
            kind = " (warm-up)" if epoch <= self.warm_up else ""
            self.notify(f"epoch {epoch} of {total}{kind}")

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Record the training of the epoch and start the time of its evaluation."""
        self._end_training(trainer)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Record the evaluation of the epoch."""
        now = synchronised_time(trainer.strategy.root_device)
        if self._is_timed(trainer) and self._since is not None:
            self.evaluation.append(now - self._since)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Record the epoch if it had no evaluation; start the time of the next one."""
        if len(self.training) <= trainer.current_epoch - self.warm_up:
            self._end_training(trainer)
        self._since = synchronised_time(trainer.strategy.root_device)

    def _end_training(self, trainer: Trainer) -> None:
        """Record seconds and peak memory of the training of the epoch."""
        device = trainer.strategy.root_device
        now = synchronised_time(device)
        if self._is_timed(trainer) and self._since is not None:
            self.training.append(now - self._since)
            peak = peak_megabytes(device)
            if peak is not None:
                self.megabytes = max(peak, self.megabytes or 0.0)
        self._since = now

    def _is_timed(self, trainer: Trainer) -> bool:
        return 0 <= trainer.current_epoch - self.warm_up < self.epochs
