"""Measure the seconds and the peak memory of training epochs.

Written by hand because Lightning's `Timer` sums over all epochs and does not
synchronise with the device.
"""

import time
from collections.abc import Callable
from statistics import median

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from gnnak.device import peak_megabytes, reset_peak

Notify = Callable[[str], None]
"""A function that is called with a short text about the progress of a benchmark."""


def synchronised_time(device: torch.device) -> float:
    """Synchronise with the device, then return `time.perf_counter()`, in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class Stopwatch(Callback):
    """Callback that measures the seconds and the peak memory of training epochs.

    The time of an epoch starts at the end of the previous epoch, so that it includes
    everything an epoch needs, such as the creation of loaders. Evaluation is timed
    separately.

    Args:
        warm_up: Number of untimed epochs at the start.
        epochs: Number of timed epochs, which follow the untimed ones.
        notify: Called at the start of each epoch with a text such as "epoch 2 of 4";
            None = not called.
    """

    def __init__(self, warm_up: int, epochs: int, notify: Notify | None = None) -> None:
        self.warm_up, self.epochs, self.notify = warm_up, epochs, notify
        self.training: list[float] = []
        self.evaluation: list[float] = []
        self.megabytes: float | None = None
        self._since: float | None = None

    @property
    def seconds(self) -> float:
        """Median seconds of the timed epochs; evaluation is not included."""
        return median(self.training)

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Start timing the first epoch."""
        self._since = synchronised_time(trainer.strategy.root_device)

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Reset the peak-memory counter; call `notify` with the number of the epoch."""
        reset_peak(trainer.strategy.root_device)
        if self.notify is not None:
            epoch, total = trainer.current_epoch + 1, trainer.max_epochs
            kind = " (warm-up)" if epoch <= self.warm_up else ""
            self.notify(f"epoch {epoch} of {total}{kind}")

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Record the training time of the epoch and start timing the evaluation."""
        self._end_training(trainer)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Record the evaluation time of the epoch."""
        now = synchronised_time(trainer.strategy.root_device)
        if self._is_timed(trainer) and self._since is not None:
            self.evaluation.append(now - self._since)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Start timing the next epoch.

        If there was no evaluation, first record the training time of this epoch;
        otherwise `on_validation_start` has already recorded it.
        """
        if len(self.training) <= trainer.current_epoch - self.warm_up:
            self._end_training(trainer)
        self._since = synchronised_time(trainer.strategy.root_device)

    def _end_training(self, trainer: Trainer) -> None:
        """Record training time and peak memory, if this is a timed epoch."""
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
