"""Restore the handler of SIGTERM after Lightning has installed its own handler."""

import signal
import threading

from lightning.pytorch import Callback, LightningModule, Trainer


class RestoreSignals(Callback):
    """Callback that replaces Lightning's handler of SIGTERM with the earlier handler.

    The earlier handler is the one that was installed when the callback was created.
    Lightning's handler broadcasts to all processes of the run; the program hangs if one
    of the processes does not take part in the broadcast.
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
