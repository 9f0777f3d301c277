"""Learning curves, best weights, early stopping and checkpoints of a run.

Written by hand for two reasons. Lightning's `ModelCheckpoint` writes the weights to
disk after every epoch with a new best score, while here the best weights stay on the
device until the run ends. And with Lightning's `EarlyStopping`, a run that had stopped
early continues to train when it is resumed.
"""

import csv
import io
import math
import os
import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from gnnak.errors import TrainingError
from gnnak.graphs.readers.files import write_bytes
from gnnak.training.callbacks.timing import Clock
from gnnak.training.module import GraphTask
from gnnak.training.records.seal import seal_file, sync_folder

SAVE_SECONDS = 20.0
"""Least number of seconds between two checkpoints. Checkpoints are written only at the
end of an epoch."""

STATE_KEY = "Keeper"
"""The name of the state of `RunHistory` in the checkpoint `last.ckpt`. The name must
never change, or else older checkpoints could not be resumed."""


class RunHistory(Callback):
    """Callback for learning curves, best weights, early stopping and checkpoints.

    Args:
        folder: The folder to write the checkpoint `last.ckpt` and the learning curves
            `metrics.csv` to.
        clock: Measures the time of the run; checkpoints contain this time.
        early_stop: Stop after this many epochs without a better validation score;
            None = never.
        fingerprint: A hash of the data set, which checkpoints contain.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        early_stop: int | None,
        fingerprint: str | None = None,
    ) -> None:
        self.folder, self.clock, self.early_stop = folder, clock, early_stop
        self.fingerprint = fingerprint
        self.curves: dict[str, list[float]] = {"train_loss": [], "validation": []}
        self.best_epoch = 0
        self.best_weights: dict[str, Tensor] = {}
        self._saved = -SAVE_SECONDS

    @property
    def epochs(self) -> int:
        """Number of finished epochs; in a resumed run, all epochs since the start."""
        return len(self.curves["validation"])

    @property
    def best(self) -> float:
        """The best validation score so far; NaN before the end of the first epoch."""
        return self.curves["validation"][self.best_epoch] if self.epochs else math.nan

    @property
    def state_key(self) -> str:
        """The name of this callback's state in the checkpoint `last.ckpt`."""
        return STATE_KEY

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Give the module the validation scores before a resumed run was stopped.

        If the run had already stopped early, stop at once.
        """
        assert isinstance(module, GraphTask)
        module.curve = self.curves["validation"]
        self._stop_early(trainer)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Record the training loss and the validation score of the epoch.

        Also copies the weights if the score is the best so far, stops the run if it is
        time to stop, and writes a checkpoint unless the last one is less than
        `SAVE_SECONDS` old.
        """
        assert isinstance(module, GraphTask)
        best, score = self.best, module.scores["validation"]
        loss = module.train_loss()
        self.curves["train_loss"].append(loss)
        self.curves["validation"].append(score)
        _check_finite(loss, score, self.epochs)
        sign = -1 if module.info.lower_is_better else 1
        if not self.best_weights or sign * score > sign * best:
            self.best_epoch = self.epochs - 1
            weights = module.network.state_dict()
            self.best_weights = {k: v.detach().clone() for k, v in weights.items()}
        self._stop_early(trainer)
        self._save(trainer)

    def state_dict(self) -> dict[str, Any]:
        """Return the learning curves, best weights and times, for checkpoints."""
        return {
            "curves": self.curves,
            "best_epoch": self.best_epoch,
            "best_weights": self.best_weights,
            "seconds": dict(self.clock.seconds),
            "megabytes": self.clock.megabytes,
            "fingerprint": self.fingerprint,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned, when a run is resumed."""
        self.curves = state["curves"]
        self.best_epoch = state["best_epoch"]
        self.best_weights = state["best_weights"]
        self.clock.seconds.update(state["seconds"])
        self.clock.megabytes.update(state["megabytes"])

    def _stop_early(self, trainer: Trainer) -> None:
        """Stop if `early_stop` says so, or if the learning rate is below `stop_rate`.

        The option `train.stop_rate` of the run belongs to its learning rate schedule.
        """
        if self.early_stop and self.epochs - 1 - self.best_epoch >= self.early_stop:
            trainer.should_stop = True
        module = trainer.lightning_module
        assert isinstance(module, GraphTask)
        least = module.config.train.stop_rate
        if least is not None and module.learning_rate(self.epochs) < least:
            trainer.should_stop = True

    def _save(self, trainer: Trainer) -> None:
        """Write the checkpoint `last.ckpt` and the learning curves `metrics.csv`.

        Does nothing if the last checkpoint is less than `SAVE_SECONDS` old.
        """
        due = time.monotonic() - self._saved >= SAVE_SECONDS
        if not trainer.strategy.broadcast(due):
            return
        # Write to a new file first: if the disk is full or the process is killed, the
        # old checkpoint stays intact.
        fresh, last = self.folder / "last.ckpt.new", self.folder / "last.ckpt"
        try:
            trainer.save_checkpoint(fresh)
            if trainer.is_global_zero:
                seal_file(fresh)
                os.replace(fresh, last)
                sync_folder(self.folder)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise TrainingError(
                f"{last} cannot be written: {error.strerror}; free disk space and go "
                "on with --resume."
            ) from error
        if trainer.is_global_zero:
            self.write_curves()
        self._saved = time.monotonic()

    def write_curves(self) -> None:
        """Write the learning curves to `metrics.csv`, one line per epoch."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["epoch", *self.curves])
        writer.writerows(
            [epoch, *values]
            for epoch, values in enumerate(zip(*self.curves.values(), strict=True))
        )
        write_bytes(self.folder / "metrics.csv", text.getvalue().encode())


def _check_finite(loss: float, score: float, epochs: int) -> None:
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss is {loss} in epoch {epochs}; lower train.learning_rate, bound "
            "the gradient with train.clip, or train with train.precision=32."
        )
    if not math.isfinite(score):
        raise TrainingError(
            f"the validation score is {score} in epoch {epochs}; lower "
            "train.learning_rate if the outputs are not finite, and check that the "
            "validation graphs have targets of every class."
        )
