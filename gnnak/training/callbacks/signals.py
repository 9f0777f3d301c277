"""Signals as they were before Lightning took them."""

import signal
import threading

from lightning.pytorch import Callback, LightningModule, Trainer


class RestoreSignals(Callback):
    """Puts back what SIGTERM did when this was made.

    Lightning's own answer first waits for all processes of a run to meet; one that is
    busy elsewhere never comes, and the program would hang.
    """

    def __init__(self) -> None:
        self.terminate = signal.getsignal(signal.SIGTERM)

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Training is about to begin."""
        self._put_back()

    def on_test_start(self, trainer: Trainer, module: LightningModule) -> None:
        """The test is about to begin."""
        self._put_back()

    def _put_back(self) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self.terminate)
