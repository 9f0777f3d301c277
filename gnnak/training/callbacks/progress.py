"""Two lines that tell how a run is going."""

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
    """A bar over all steps of the run, and below it loss and scores.

    Args:
        console: Where they are shown; only the first process of a run shows any.
        title: What the run is called.
        history: Knows the scores.
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
        """Show the bar."""
        self.progress.update(self.task, total=trainer.max_epochs)
        self.shown = trainer.is_global_zero
        if self.shown:
            self.progress.start()

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Begin where the run is; it may have been resumed."""
        self.progress.update(self.task, completed=trainer.current_epoch)

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, *more: Any
    ) -> None:
        """Move the bar by one step's share of an epoch."""
        self.progress.advance(self.task, 1 / trainer.num_training_batches)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Tell the scores."""
        kept = self.history
        if not kept.epochs:
            return
        self.progress.text = (
            f"  loss {kept.curves['train_loss'][-1]:.4g}"
            f"   validation {kept.curves['validation'][-1]:.4g}"
            f"   best {kept.best:.4g} in epoch {kept.best_epoch + 1}"
        )
        self.progress.update(self.task, completed=kept.epochs)

    def on_fit_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Leave the last state on the screen."""
        self._stop()

    def on_exception(
        self, trainer: Trainer, module: LightningModule, exception: BaseException
    ) -> None:
        """Give the screen back."""
        self._stop()

    def _stop(self) -> None:
        if self.shown:
            self.progress.stop()
        self.shown = False


class _BarAndText(Progress):
    """A bar with a line of text below it."""

    text = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar; then the text, if there is any."""
        yield self.make_tasks_table(self.tasks)
        if self.text:
            yield Text(self.text, no_wrap=True, overflow="ellipsis")
