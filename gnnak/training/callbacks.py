"""Lightning callbacks: learning curves, checkpoints, progress, BatchNorm statistics."""

import math
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gnnak.backend import PLAIN, use_backend
from gnnak.distributed import several_processes, sum_over_processes
from gnnak.errors import TrainingError
from gnnak.graphs.readers.files import write_bytes
from gnnak.loading.items import Item
from gnnak.training.data import GraphData
from gnnak.training.module import GraphTask, batch_statistics
from gnnak.training.processes.stopping import Stopped, StopRequest
from gnnak.training.records.checkpoint import seal_file, sync_folder
from gnnak.training.timing import Clock


class Recalibrate(Callback):
    def __init__(self, after_batch: Callable[[Trainer], None]) -> None:
        self.after_batch = after_batch

    def on_validation_epoch_start(
        self, trainer: Trainer, module: LightningModule
    ) -> None:
        assert isinstance(module, GraphTask)
        data = trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(data, GraphData)
        with trainer.precision_plugin.val_step_context():
            recalibrate(module.scored, self._batches(trainer, data))

    def _batches(self, trainer: Trainer, data: GraphData) -> Iterator[Item]:
        for item in data.statistics_dataloader():
            yield item
            self.after_batch(trainer)


@torch.no_grad()
def recalibrate(network: nn.Module, batches: Iterable[Item]) -> None:
    """Set the running statistics of batch norms to averages over `batches`.

    The mean and biased variance of a batch are weighted by its number of rows. Batches
    of one row are ignored. The network must be in evaluation mode. All processes of a
    distributed run must call this together, each with its own batches.
    """
    with _statistics(network) as sums, use_backend(PLAIN), batch_statistics(network):
        for item in batches:
            network(item.batch, subgraphs=item.subgraphs)
    for norm, total in sums.items():
        if several_processes():
            sum_over_processes(total)
        rows, mean, variance = total
        if (rows > 0).all():
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.running_mean.copy_(mean / rows)
            norm.running_var.copy_(variance / rows)


@contextmanager
def _statistics(network: nn.Module) -> Iterator[dict[_BatchNorm, Tensor]]:
    """Context manager: yield, per batch norm, the sums that `_add` updates, [3, c]."""
    sums: dict[_BatchNorm, Tensor] = {}
    with ExitStack() as hooks:
        for norm in network.modules():
            if isinstance(norm, _BatchNorm) and norm.running_mean is not None:
                sums[norm] = norm.running_mean.new_zeros(
                    3, norm.num_features, dtype=torch.double
                )
                hook = norm.register_forward_pre_hook(
                    lambda norm, inputs: _add(sums[norm], inputs[0])
                )
                hooks.callback(hook.remove)
        yield sums


def _add(total: Tensor, x: Tensor) -> None:
    """If `x` has r > 1 rows, add r * (1, mean, biased variance) to `total`, [3, c]."""
    rows = x.size(0)
    if rows > 1:
        variance, mean = torch.var_mean(x.double(), dim=0, correction=0)
        total += rows * torch.stack([torch.ones_like(mean), mean, variance])


SAVE_SECONDS = 20.0
"""Minimum number of seconds between two checkpoints, unless the run is stopped."""

STATE_KEY = "Keeper"
"""Key of `RunHistory` in `last.ckpt`; must not change: old checkpoints have it."""


class RunHistory(Callback):
    """Callback for learning curves, best weights, early stopping and checkpoints."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        early_stop: int | None,
        fingerprint: str | None = None,
    ) -> None:
        self.folder, self.clock, self.early_stop = folder, clock, early_stop
        self.fingerprint = fingerprint
        self.key = secrets.token_hex(8)
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
        return STATE_KEY

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        assert isinstance(module, GraphTask)
        module.curve = self.curves["validation"]
        first = trainer.strategy.broadcast(trainer.global_step)
        if first != trainer.global_step:
            raise TrainingError(
                f"the first process starts after step {first}, but this one after step "
                f"{trainer.global_step}: not all machines see the same "
                f"{self.folder / 'last.ckpt'} yet; go on with --resume in a minute."
            )
        self._stop_early(trainer)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        assert isinstance(module, GraphTask)
        best, score = self.best, module.scores["validation"]
        loss = module.finish_epoch()
        self.curves["train_loss"].append(loss)
        self.curves["validation"].append(score)
        _check_finite(loss, score, self.epochs)
        sign = -1 if module.info.lower_is_better else 1
        if not self.best_weights or sign * score > sign * best:
            self.best_epoch = self.epochs - 1
            weights = module.scored.state_dict()
            self.best_weights = {k: v.detach().clone() for k, v in weights.items()}
        self._stop_early(trainer)
        due = time.monotonic() - self._saved >= SAVE_SECONDS
        if trainer.strategy.broadcast(due):
            self.save(trainer)

    def state_dict(self) -> dict[str, Any]:
        return {
            "curves": self.curves,
            "best_epoch": self.best_epoch,
            "best_weights": self.best_weights,
            "seconds": dict(self.clock.seconds),
            "megabytes": self.clock.megabytes,
            "fingerprint": self.fingerprint,
            "key": self.key,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.curves = state["curves"]
        self.best_epoch = state["best_epoch"]
        self.best_weights = state["best_weights"]
        self.clock.seconds.update(state["seconds"])
        self.clock.megabytes.update(state["megabytes"])
        self.key = state.get("key", self.key)

    def _stop_early(self, trainer: Trainer) -> None:
        if self.early_stop and self.epochs - 1 - self.best_epoch >= self.early_stop:
            trainer.should_stop = True
        module = trainer.lightning_module
        assert isinstance(module, GraphTask)
        train, epochs = module.config.train, self.epochs
        least = train.stop_rate if epochs >= train.warm_up else None
        if least is not None and module.learning_rate(epochs) < least:
            trainer.should_stop = True

    def save(self, trainer: Trainer) -> None:
        """Write `last.ckpt` and `metrics.csv`; all processes must call this."""
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
                "on with --resume (resume=True)."
            ) from error
        if trainer.is_global_zero:
            self.write_curves()
        self._saved = time.monotonic()

    def write_curves(self) -> None:
        rows = zip(range(self.epochs), *self.curves.values(), strict=True)
        lines = [",".join(map(str, row)) for row in [("epoch", *self.curves), *rows]]
        write_bytes(self.folder / "metrics.csv", "\n".join([*lines, ""]).encode())


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


class RestoreSignals(Callback):
    """Callback that removes Lightning's SIGTERM handler, which can hang the program."""

    def __init__(self) -> None:
        self.terminate = signal.getsignal(signal.SIGTERM)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self.terminate)

    on_test_start = on_train_start


class StopAtStep(RestoreSignals):
    """Callback that stops training at the end of the step in which a signal arrives."""

    def __init__(self, request: StopRequest, history: RunHistory) -> None:
        super().__init__()
        self.request, self.history = request, history

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        self.request.deferred = True

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """Raise `Stopped` in all processes if one of them has received a signal."""
        number, decide = self.request.number, trainer.strategy.reduce_boolean_decision
        if decide(number is not None, all=False):
            raise Stopped(number or signal.SIGTERM, self.request.advice)

    on_validation_batch_end = on_train_batch_end  # type: ignore[assignment]
    on_train_epoch_end = on_train_batch_end  # type: ignore[assignment]

    def on_exception(
        self, trainer: Trainer, module: LightningModule, exception: BaseException
    ) -> None:
        if isinstance(exception, Stopped) and self.request.deferred:
            self.history.save(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.request.release()


class ProgressLines(Callback):
    """Callback that shows a progress bar for the run, with loss and scores below it."""

    def __init__(self, console: Console, title: str, history: RunHistory) -> None:
        self.title, self.history = title, history
        self.progress = _BarAndText(
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=None),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            console=console,
            expand=True,
        )
        self.task = self.progress.add_task(title)
        self.shown = False

    def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.progress.update(self.task, total=trainer.max_epochs)
        self.shown = trainer.is_global_zero
        if self.shown:
            self.progress.start()

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Set the bar to the number of finished epochs, also in a resumed run."""
        self.progress.update(self.task, completed=trainer.current_epoch)

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, *more: Any
    ) -> None:
        self.progress.advance(self.task, 1 / trainer.num_training_batches)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        history = self.history
        self.progress.text = (
            f"  loss {history.curves['train_loss'][-1]:.4g}"
            f"   validation {history.curves['validation'][-1]:.4g}"
            f"   best {history.best:.4g} in epoch {history.best_epoch + 1}"
        )
        self.progress.update(self.task, completed=history.epochs)

    def on_fit_end(self, *_: Any) -> None:
        """Stop updating the bar, so that it does not overwrite an error message."""
        if self.shown:
            self.progress.stop()
        self.shown = False

    on_exception = on_fit_end  # type: ignore[assignment]


class _BarAndText(Progress):
    text = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if self.text:
            yield Text(self.text, no_wrap=True, overflow="ellipsis")
