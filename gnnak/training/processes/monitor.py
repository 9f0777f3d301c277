"""End a run of several processes if one of them is killed or frozen.

The main process watches the workers that Lightning has started, and replaces
Lightning's own watcher: that one kills the main process without a message, and does not
notice frozen workers. Workers watch the main process, see `workers.py`.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lightning.pytorch import Trainer
from torch.distributed import DistError

from gnnak.errors import TrainingError
from gnnak.training.processes.heartbeat import Listener, beat, end_heartbeats
from gnnak.training.processes.workers import (
    POLL_SECONDS,
    end_with_main,
    how_ended,
    is_worker,
)

NAME = "gnnak-watch-workers"
"""The name of the thread of the main process that watches the workers."""
NOTICE_SECONDS = 5.0
"""After a communication error, how long to wait for a worker that has ended."""
GRACE_SECONDS = 10.0
"""How long the main process may wait for a worker that has ended. After this time the
main process is ended, because some communication libraries wait for hours."""
NETWORK_WORDS = ("gloo", "nccl", "connection closed", "connection reset", "broken pipe")
"""An error whose message has one of these words, in any case, is about communication
between processes."""


@contextmanager
def watched(trainer: Trainer) -> Iterator[None]:
    """Context manager: end with one sentence if a process of the run is lost.

    Has no effect in a run of one process.

    Raises:
        TrainingError: In the main process, if a worker was killed, froze, or ended with
            an error.
    """
    if trainer.world_size == 1:
        yield
        return
    monitor = None if is_worker() else _monitor()
    if monitor is not None:
        monitor.start_watching(trainer.strategy.launcher)
    try:
        yield
    except RuntimeError as error:
        if monitor is None:
            end_with_main(GRACE_SECONDS)
            raise
        lost = monitor.wait_for_loss(NOTICE_SECONDS)
        if lost is None and not _is_about_communication(error):
            raise
        first = str(error).partition("\n")[0].strip().rstrip(".")
        unknown = f"communication between the processes failed ({first})"
        raise TrainingError(lost or _sentence(unknown)) from error
    finally:
        if monitor is not None:
            monitor.stop_watching()


class Monitor(threading.Thread):
    """The thread of the main process that watches the workers."""

    def __init__(self) -> None:
        super().__init__(name=NAME, daemon=True)
        self.workers: list[subprocess.Popen] = []
        self.loss: str | None = None
        self._launcher: Any = None
        self._listener = Listener(POLL_SECONDS)
        self._waited = 0.0

    def start_watching(self, launcher: Any) -> None:
        """Watch the workers that a launcher of Lightning starts, and earlier ones."""
        self._waited = 0.0
        self._launcher = launcher

    def stop_watching(self) -> None:
        """Do not end this process any more; end all workers if one was lost."""
        self._launcher = None
        if self.loss is not None:
            for worker in self.workers:
                worker.kill()

    def wait_for_loss(self, seconds: float) -> str | None:
        """Return a sentence about the lost worker; None if none is lost in time."""
        deadline = time.monotonic() + seconds
        while self.loss is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return self.loss

    def run(self) -> None:
        """Look after the workers until the process ends."""
        while True:
            time.sleep(POLL_SECONDS)
            beat()
            self._adopt()
            for rank, worker in enumerate(self.workers, start=1):
                if self.loss is None:
                    self.loss = self._look_after(rank, worker)
            if self.loss is not None and self._launcher is not None:
                self._waited += POLL_SECONDS
                if self._waited > GRACE_SECONDS:
                    self._leave(self.loss)

    def _adopt(self) -> None:
        """Take over the workers, so that Lightning does not watch them any more."""
        started = getattr(self._launcher, "procs", [])
        while started:
            self.workers.append(started.pop(0))

    def _look_after(self, rank: int, worker: subprocess.Popen) -> str | None:
        """Return a sentence if a worker is lost; kill a worker that is frozen.

        The death of the worker ends the wait of the other processes for its messages.
        """
        code = worker.poll()
        if code is None and self._listener.is_frozen(rank):
            worker.kill()
            return _sentence(f"worker process {rank} does not answer any more")
        if code is None or code == 0:
            return None
        return _sentence(f"worker process {rank} {how_ended(code)}")

    def _leave(self, message: str) -> None:
        """End this process at once, and show the cursor that a progress bar hides."""
        for worker in self.workers:
            worker.kill()
        end_heartbeats()
        cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{cursor}\nerror: {message}\n")
        sys.stderr.flush()
        os._exit(2)


def _monitor() -> Monitor:
    """Return the thread that watches the workers; start it if there is none."""
    for thread in threading.enumerate():
        if isinstance(thread, Monitor):
            return thread
    monitor = Monitor()
    monitor.start()
    return monitor


def _sentence(text: str) -> str:
    return f"{text}, so the run ended; go on with --resume."


def _is_about_communication(error: RuntimeError) -> bool:
    message = str(error).lower()
    return isinstance(error, DistError) or any(w in message for w in NETWORK_WORDS)
