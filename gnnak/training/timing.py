"""Which phase a run is in, told to its clock."""

from contextlib import ExitStack

from lightning.pytorch import Callback, LightningModule, Trainer

from gnnak.training.clock import Clock, Phase


class Timing(Callback):
    """Counts training and evaluation for themselves, in seconds and in memory.

    Args:
        clock: Where they are counted.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._phase = ExitStack()

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Training begins."""
        self._enter("train")

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Training has ended, evaluation begins."""
        self._enter("evaluation")

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Evaluation has ended."""
        self._phase.close()

    def on_exception(
        self, trainer: Trainer, module: LightningModule, exception: BaseException
    ) -> None:
        """Nothing more is counted."""
        self._phase.close()

    def _enter(self, phase: Phase) -> None:
        self._phase.close()
        self._phase.enter_context(self.clock.measure(phase))
