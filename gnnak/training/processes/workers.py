"""Worker processes of a run: if the main process or a worker ends, all others end."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnak.errors import TrainingError

if TYPE_CHECKING:  # the command line imports this module at its start
    from lightning.pytorch import Trainer

FOLDER = "GNNAK_HEARTBEATS"
"""Environment variable with the folder of heartbeats: files that processes touch."""
FROZEN_SECONDS = 30.0
"""A process that sends no heartbeat for this many seconds counts as frozen."""


def start_heartbeats() -> None:
    """Create the folder of heartbeat files; delete it at exit."""
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="gnnak-")
        atexit.register(end_heartbeats)


def end_heartbeats() -> None:
    if name := os.environ.pop(FOLDER, None):
        shutil.rmtree(name, ignore_errors=True)


def has_heartbeats() -> bool:
    return FOLDER in os.environ and Path(os.environ[FOLDER]).is_dir()


def local_rank() -> int:
    """Return the rank of this process on this machine; the main process has rank 0."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def beat() -> None:
    if FOLDER in os.environ:
        with suppress(OSError):
            Path(os.environ[FOLDER], str(local_rank())).touch()


class Listener:
    """Detects processes that have sent no heartbeat for `FROZEN_SECONDS`.

    `is_frozen` must be called every `interval` seconds. It counts calls, since a clock
    also runs while this process is suspended.
    """

    def __init__(self, interval: float) -> None:
        self._most = FROZEN_SECONDS / interval
        self._heard: dict[int, tuple[int | None, int]] = {}

    def is_frozen(self, rank: int) -> bool:
        """Return whether a process is frozen; False if it never sent a heartbeat."""
        try:
            now = Path(os.environ[FOLDER], str(rank)).stat().st_mtime_ns
        except (KeyError, OSError):
            return False
        before, calls = self._heard.get(rank, (None, 0))
        calls = calls + 1 if now == before else 0
        self._heard[rank] = now, calls
        return calls >= self._most


MAIN = "GNNAK_MAIN_PROCESS"
"""The environment variable that tells workers the process id of the main process."""
POLL_SECONDS = 0.2
"""Interval, in seconds, at which a worker checks if the main process is still alive."""
WATCHER = "gnnak-watch-main"
"""The name of a worker's thread that checks whether the main process is alive."""
LEAVING = threading.Lock()
"""Locked by the thread that ends this process, so that only one thread does so."""


def become_main() -> None:
    os.environ.setdefault(MAIN, str(os.getpid()))


@contextmanager
def main_of_workers() -> Iterator[None]:
    """Context manager: make this the main process of workers started in the block."""
    before = os.environ.get(MAIN)
    become_main()
    try:
        yield
    finally:
        if before is None:
            del os.environ[MAIN]


def how_ended(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return "ended" if code is None else f"ended with exit code {code}"


def is_worker() -> bool:
    return os.environ.get(MAIN, str(os.getpid())) != str(os.getpid())


def main_is_gone(seconds: float = 0.0) -> bool:
    """Wait up to `seconds`; return whether this worker's main process has ended."""
    deadline = time.monotonic() + seconds
    while os.environ.get(MAIN) == str(os.getppid()):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def follow_main() -> None:
    """Make this worker end with the main process, and ignore SIGINT and SIGTERM."""
    if any(thread.name == WATCHER for thread in threading.enumerate()):
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_watch, name=WATCHER, daemon=True).start()


def end_with_main(seconds: float = 0.0) -> None:
    if main_is_gone(seconds):
        _leave("the main process was killed" if has_heartbeats() else "")


def _watch() -> None:
    """Wait until the main process has ended or is frozen, then end this process."""
    listener = Listener(POLL_SECONDS)
    while not main_is_gone():
        beat()
        if listener.is_frozen(0):
            # The locks of a frozen process would prevent the run from resuming.
            with suppress(OSError):
                os.kill(int(os.environ[MAIN]), signal.SIGKILL)
            _leave("the main process does not answer any more")
        time.sleep(POLL_SECONDS)
    time.sleep(POLL_SECONDS)
    end_with_main()


def _leave(reason: str) -> None:
    with LEAVING:
        if reason and local_rank() == 1:
            sys.stderr.write(f"\nerror: {_sentence(reason)}\n")
            sys.stderr.flush()
            end_heartbeats()
        os._exit(1)


NAME = "gnnak-watch-workers"
"""The name of the thread of the main process that watches the workers."""
NOTICE_SECONDS = 5.0
"""Seconds to wait for news of a lost worker after a communication error."""
GRACE_SECONDS = 10.0
"""Seconds after the end of a worker until a main process that hangs is ended."""
NETWORK_WORDS = ("gloo", "nccl", "connection closed", "connection reset", "broken pipe")
"""Words by which error messages of failed communication are recognised."""


@contextmanager
def watched(trainer: Trainer) -> Iterator[None]:
    """Context manager: end with a clear error message if a process of the run dies."""
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
        from torch.distributed import DistError

        lost, told = monitor.wait_for_loss(NOTICE_SECONDS), str(error).lower()
        about_network = any(word in told for word in NETWORK_WORDS)
        if not (lost or about_network or isinstance(error, DistError)):
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
        self._waited = 0.0
        self._launcher = launcher

    def stop_watching(self) -> None:
        """Stop watching; if a worker was lost, kill all workers."""
        self._launcher = None
        if self.loss is not None:
            for worker in self.workers:
                worker.kill()

    def wait_for_loss(self, seconds: float) -> str | None:
        """Wait until a worker is lost, up to `seconds`; return the error, else None."""
        deadline = time.monotonic() + seconds
        while self.loss is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return self.loss

    def run(self) -> None:
        while True:
            time.sleep(POLL_SECONDS)
            beat()
            # Take over the workers, so that Lightning does not watch them any more.
            started = getattr(self._launcher, "procs", [])
            while started:
                self.workers.append(started.pop(0))
            for rank, worker in enumerate(self.workers, start=1):
                if self.loss is None:
                    self.loss = self._look_after(rank, worker)
            if self.loss is not None and self._launcher is not None:
                self._waited += POLL_SECONDS
                if self._waited > GRACE_SECONDS:
                    self._leave(self.loss)

    def _look_after(self, rank: int, worker: subprocess.Popen) -> str | None:
        """Return an error message if a worker is lost; kill a worker that is frozen."""
        code = worker.poll()
        if code is None and self._listener.is_frozen(rank):
            worker.kill()
            return _sentence(f"worker process {rank} does not answer any more")
        if code is None or code == 0:
            return None
        return _sentence(f"worker process {rank} {how_ended(code)}")

    def _leave(self, message: str) -> None:
        for worker in self.workers:
            worker.kill()
        end_heartbeats()
        cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{cursor}\nerror: {message}\n")
        sys.stderr.flush()
        os._exit(2)


def _monitor() -> Monitor:
    for thread in threading.enumerate():
        if isinstance(thread, Monitor):
            return thread
    monitor = Monitor()
    monitor.start()
    return monitor


def _sentence(text: str) -> str:
    return f"{text}, so the run ended; go on with --resume."
