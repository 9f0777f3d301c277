"""Worker processes of a run (DDP ranks), which end when the main process ends.

By hand: Lightning ends its worker processes on SIGTERM, but not if the main one is
killed.
"""

import os
import signal
import threading
import time

MAIN = "GNNAK_MAIN_PROCESS"
"""The environment variable with the process id of the main process."""
POLL_SECONDS = 0.2
"""Seconds between two checks whether the main process is alive."""
WATCHER = "gnnak-watch-main"
"""The name of the thread that checks, one per worker."""


def become_main() -> None:
    """Make all processes that this one starts from now on its workers."""
    os.environ.setdefault(MAIN, str(os.getpid()))


def is_worker() -> bool:
    """Return whether this process is a worker of another one."""
    return os.environ.get(MAIN, str(os.getpid())) != str(os.getpid())


def main_is_gone(seconds: float = 0.0) -> bool:
    """Return whether the main process has ended, or ends within `seconds`."""
    deadline = time.monotonic() + seconds
    while os.environ.get(MAIN) == str(os.getppid()):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def follow_main() -> None:
    """Make this worker end when the main process ends; ignore SIGINT and SIGTERM.

    Ctrl-C reaches all processes of a terminal. The main process handles it and prints
    a message; a worker that ended first would break its communication.
    """
    if any(thread.name == WATCHER for thread in threading.enumerate()):
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_watch, name=WATCHER, daemon=True).start()


def _watch() -> None:
    """End this process soon after the main process has ended."""
    while not main_is_gone():
        time.sleep(POLL_SECONDS)
    time.sleep(POLL_SECONDS)
    os._exit(1)
