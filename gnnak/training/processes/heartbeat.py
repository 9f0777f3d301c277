"""Heartbeats: how the processes of a run notice that one of them does not run any more.

Every process of a machine touches a file of its own several times a second, from a
thread. If the file of a process does not change for a long time, the process is frozen:
it was stopped by a signal or a debugger, or it waits for a broken disk.
"""

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

FOLDER = "GNNAK_HEARTBEATS"
"""The environment variable that tells the processes of a run where the files are."""
FROZEN_SECONDS = 30.0
"""A process without a heartbeat for this many seconds is frozen."""


def start_heartbeats() -> None:
    """Create the folder of the files; the main process calls this before it trains.

    The folder is removed when the main process ends, but not if it is killed: workers
    then know that the main process has printed no message.
    """
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="gnnak-")
        atexit.register(end_heartbeats)


def end_heartbeats() -> None:
    """Remove the folder of the files."""
    if name := os.environ.pop(FOLDER, None):
        shutil.rmtree(name, ignore_errors=True)


def has_heartbeats() -> bool:
    """Return whether the folder of the files exists."""
    return FOLDER in os.environ and Path(os.environ[FOLDER]).is_dir()


def local_rank() -> int:
    """Return the number of this process among those of this machine; 0 = main."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def beat() -> None:
    """Send a heartbeat of this process. Does nothing if there is no folder."""
    if FOLDER in os.environ:
        with suppress(OSError):
            Path(os.environ[FOLDER], str(local_rank())).touch()


class Listener:
    """Measures for how long processes have sent no heartbeat.

    Time is counted in calls, not with a clock: if this process was itself frozen, or
    the computer asleep, that time does not count.

    Args:
        interval: Seconds between two calls of `is_frozen` for the same process.
    """

    def __init__(self, interval: float) -> None:
        self._most = FROZEN_SECONDS / interval
        self._heard: dict[int, tuple[int | None, int]] = {}

    def is_frozen(self, rank: int) -> bool:
        """Return whether a process is frozen; call this at regular intervals.

        Args:
            rank: The number of the process among those of this machine. A process that
                has never sent a heartbeat is not frozen.
        """
        try:
            now = Path(os.environ[FOLDER], str(rank)).stat().st_mtime_ns
        except (KeyError, OSError):
            return False
        before, calls = self._heard.get(rank, (None, 0))
        calls = calls + 1 if now == before else 0
        self._heard[rank] = now, calls
        return calls >= self._most
