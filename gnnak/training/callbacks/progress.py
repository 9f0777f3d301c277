"""Show the progress of a run: a bar, with a line of text below the bar.

Written by hand because Lightning's `RichProgressBar` shows one bar per epoch, not one
bar for the whole run.
"""

from collections.abc import Iterable
from typing import Any

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

from gnnak.training.callbacks.history import RunHistory


class ProgressLines(Callback):
    """Callback that shows one progress bar for the run, with loss and scores below it.

    Args:
        console: The console to write to; only the main process of a run writes.
        title: The title of the run, shown left of the bar.
        history: Records the loss and the scores that are shown.
    """

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
        """Show the bar when training starts."""
        self.progress.update(self.task, total=trainer.max_epochs)
        self.shown = trainer.is_global_zero
        if self.shown:
            self.progress.start()

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Set the bar to the number of finished epochs.

        In a resumed run, the bar thus includes the epochs before the interruption.
        """
        self.progress.update(self.task, completed=trainer.current_epoch)

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, *more: Any
    ) -> None:
        """Advance the bar, which counts epochs, by one training step."""
        self.progress.advance(self.task, 1 / trainer.num_training_batches)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Show the training loss, the validation score and the best score so far."""
        history = self.history
        if not history.epochs:
            return
        self.progress.text = (
            f"  loss {history.curves['train_loss'][-1]:.4g}"
            f"   validation {history.curves['validation'][-1]:.4g}"
            f"   best {history.best:.4g} in epoch {history.best_epoch + 1}"
        )
        self.progress.update(self.task, completed=history.epochs)

    def on_fit_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Stop updating the bar, which stays on the screen."""
        self._stop()

    def on_exception(
        self, trainer: Trainer, module: LightningModule, exception: BaseException
    ) -> None:
        """Stop updating the bar, so that it does not overwrite the error message."""
        self._stop()

    def _stop(self) -> None:
        if self.shown:
            self.progress.stop()
        self.shown = False


class _BarAndText(Progress):
    """A progress bar with a line of text below it."""

    text = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bar, then the text if there is any."""
        yield self.make_tasks_table(self.tasks)
        if self.text:
            yield Text(self.text, no_wrap=True, overflow="ellipsis")
