"""Restore the handler of SIGTERM after Lightning has replaced it by its own."""

import signal
import threading

from lightning.pytorch import Callback, LightningModule, Trainer


class RestoreSignals(Callback):
    """Callback that restores the handler of SIGTERM after Lightning replaced it.

    It restores the handler that was installed when the callback was created.
    Lightning's handler first broadcasts to all processes of the run; if one of them
    does not take part in the broadcast, the program hangs.
    """

    def __init__(self) -> None:
        self.terminate = signal.getsignal(signal.SIGTERM)

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Restore the handler of SIGTERM when training starts."""
        self._restore()

    def on_test_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Restore the handler of SIGTERM when the test starts."""
        self._restore()

    def _restore(self) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self.terminate)
