"""Restore the signal handler that Lightning replaces."""

import signal
import threading

from lightning.pytorch import Callback, LightningModule, Trainer


class RestoreSignals(Callback):
    """Restores the handler of SIGTERM that was installed when this was created.

    Lightning's handler first broadcasts to all processes of the run; if one of them is
    busy with something else, the program hangs.
    """

    def __init__(self) -> None:
        self.terminate = signal.getsignal(signal.SIGTERM)

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Restore the handler before training."""
        self._restore()

    def on_test_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Restore the handler before the test."""
        self._restore()

    def _restore(self) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self.terminate)
