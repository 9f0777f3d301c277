"""Processes that help a run, and end with the one that started them."""

import os
import signal
import threading
import time

MAIN = "GNNAK_MAIN_PROCESS"
"""The variable that tells workers the process they belong to."""
POLL_SECONDS = 0.2
"""Seconds between two checks that the main process is alive."""
WATCHER = "gnnak-watch-main"
"""The name of the thread of a worker that checks."""


def become_main() -> None:
    """What this process starts from now on are its workers."""
    os.environ.setdefault(MAIN, str(os.getpid()))


def is_worker() -> bool:
    """Whether this process was started to help another one."""
    return os.environ.get(MAIN, str(os.getpid())) != str(os.getpid())


def main_is_gone(seconds: float = 0.0) -> bool:
    """Whether the main process has ended, or ends within so many seconds."""
    deadline = time.monotonic() + seconds
    while os.environ.get(MAIN) == str(os.getppid()):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def follow_main() -> None:
    """End when the main process ends, and by no signal that is meant for it.

    Ctrl-C reaches all processes of a terminal. The main one tells what happened; a
    worker that died before would take it along in the middle of a message.
    """
    if any(thread.name == WATCHER for thread in threading.enumerate()):
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_watch, name=WATCHER, daemon=True).start()


def _watch() -> None:
    while not main_is_gone():
        time.sleep(POLL_SECONDS)
    time.sleep(POLL_SECONDS)
    os._exit(1)
