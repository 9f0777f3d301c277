"""One line that tells how a run is going."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from gnnak.training.keeper import Keeper


class ProgressLine(Callback):
    """A bar over all steps of the run, with epoch, loss and scores beside it.

    Args:
        console: Where it is shown.
        title: What the run is called.
        keeper: Knows the scores.
    """

    def __init__(self, console: Console, title: str, keeper: Keeper) -> None:
        self.title, self.keeper = title, keeper
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}"),
            console=console,
        )

    def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Show the bar."""
        if trainer.is_global_zero:
            self.progress.start()
        self.task = self.progress.add_task(
            self.title, total=trainer.max_epochs, told=""
        )

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Begin where the run is; it may have been resumed."""
        self.progress.update(self.task, completed=trainer.current_epoch)

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, *more: Any
    ) -> None:
        """Move the bar by one step's share of an epoch."""
        steps = trainer.num_training_batches
        self.progress.advance(self.task, 1 / steps)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Tell the scores."""
        kept = self.keeper
        if not kept.epochs:
            return
        told = (
            f"loss {kept.curves['train_loss'][-1]:.4g}"
            f"  validation {kept.curves['validation'][-1]:.4g}"
            f"  best {kept.best:.4g} (epoch {kept.best_epoch + 1})"
        )
        self.progress.update(self.task, completed=kept.epochs, told=told)

    def on_fit_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Leave the last state on the screen."""
        self.progress.stop()

    def on_exception(
        self, trainer: Trainer, module: LightningModule, exception: BaseException
    ) -> None:
        """Give the screen back."""
        self.progress.stop()
