"""Make the worker processes of a run end when the main process ends or is frozen.

With several devices, the main process starts one worker process per further device, for
distributed data parallel training (DDP). This module is needed because Lightning does
not end its worker processes if the main process is killed.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gnnak.training.processes.heartbeat import (
    Listener,
    beat,
    end_heartbeats,
    has_heartbeats,
    local_rank,
)

MAIN = "GNNAK_MAIN_PROCESS"
"""The environment variable that tells workers the process id of the main process."""
POLL_SECONDS = 0.2
"""Interval, in seconds, at which a worker checks if the main process is still alive."""
WATCHER = "gnnak-watch-main"
"""The name of a worker's thread that checks whether the main process is alive."""
LEAVING = threading.Lock()
"""The thread that ends this process has this lock, so that it prints only once."""


def become_main() -> None:
    """Declare this process the main process of a run.

    The process id is stored in the environment variable `MAIN`. Processes that the main
    process starts later inherit the variable, which makes them workers. In a worker,
    this function does nothing.
    """
    os.environ.setdefault(MAIN, str(os.getpid()))


@contextmanager
def main_of_workers() -> Iterator[None]:
    """Context manager: processes that are started within the block are workers."""
    before = os.environ.get(MAIN)
    become_main()
    try:
        yield
    finally:
        if before is None:
            del os.environ[MAIN]


def how_ended(code: int | None) -> str:
    """Return how a process ended, as the predicate of a sentence.

    Args:
        code: Its exit code, negative if a signal killed it; None if it is not known.

    >>> how_ended(-9), how_ended(None)
    ('was killed by SIGKILL', 'ended')
    >>> how_ended(3), how_ended(-999)
    ('ended with exit code 3', 'ended with exit code -999')
    """
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return "ended" if code is None else f"ended with exit code {code}"


def is_worker() -> bool:
    """Return whether this process is a worker, that is, not the main process."""
    return os.environ.get(MAIN, str(os.getpid())) != str(os.getpid())


def main_is_gone(seconds: float = 0.0) -> bool:
    """Return whether the main process has ended. Workers call this function.

    Args:
        seconds: How long to wait for the end of a main process that is still alive.
    """
    deadline = time.monotonic() + seconds
    while os.environ.get(MAIN) == str(os.getppid()):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def follow_main() -> None:
    """Make this worker end when the main process ends, and ignore SIGINT and SIGTERM.

    Ctrl-C sends SIGINT to all processes of a terminal. Only the main process handles
    the signal and prints a message. If a worker ended first, the main process would
    fail with a communication error instead.
    """
    if any(thread.name == WATCHER for thread in threading.enumerate()):
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_watch, name=WATCHER, daemon=True).start()


def end_with_main(seconds: float = 0.0) -> None:
    """End this worker if the main process has ended.

    If the main process was killed, the first worker prints a message.

    Args:
        seconds: How long to wait for the end of a main process that is still alive.
    """
    if main_is_gone(seconds):
        _leave("the main process was killed" if has_heartbeats() else "")


def _watch() -> None:
    """Wait until the main process has ended or is frozen, then end this process."""
    listener = Listener(POLL_SECONDS)
    while not main_is_gone():
        beat()
        if listener.is_frozen(0):
            _kill_main()
            _leave("the main process does not answer any more")
        time.sleep(POLL_SECONDS)
    time.sleep(POLL_SECONDS)
    end_with_main()


def _kill_main() -> None:
    """Kill a frozen main process: its locks would prevent the run from resuming."""
    with suppress(OSError):
        os.kill(int(os.environ[MAIN]), signal.SIGKILL)


def _leave(reason: str) -> None:
    """End this process at once; the first worker prints the reason, if there is one."""
    with LEAVING:
        if reason and local_rank() == 1:
            told = f"error: {reason}, so the run ended; go on with --resume."
            sys.stderr.write(f"\n{told}\n")
            sys.stderr.flush()
            end_heartbeats()
        os._exit(1)
