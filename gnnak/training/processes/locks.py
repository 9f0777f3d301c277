"""A lock on the folder of a run, also between machines that share the folder.

On one machine, the operating system releases the lock after a kill. A file server may
release it late, never, or lock only between the processes of one machine. Therefore,
the owner sets the time of the lock file every `BEAT_SECONDS`. Other machines see by it
whether the owner is alive, without comparing clocks.
"""

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from threading import Event, Thread

from lightning.fabric.utilities.rank_zero import rank_zero_only

from gnnak.errors import FileFormatError, TrainingError
from gnnak.graphs.readers.files import make_folder, try_lock

LOCK = "run.lock"
"""The lock file in the folder of a run; its text says which process has the lock."""
BEAT_SECONDS = 5.0
"""Interval, in seconds, at which the owner of a lock sets the time of its file."""
SILENT_SECONDS = 60.0
"""An owner on another machine counts as dead if it sets no time for so many seconds."""
LOOK_SECONDS = 1.0
"""Interval, in seconds, at which the time of another machine's lock file is read."""


class InUseError(TrainingError):
    """Raised if another process is doing the same run."""


@contextmanager
def reserved(folder: Path) -> Iterator[None]:
    """Context manager: lock a run's folder; raise `InUseError` if it is locked."""
    rank: int = rank_zero_only.rank  # type: ignore[attr-defined]
    if rank or os.environ.get("NODE_RANK", "0") != "0":
        yield
        return
    with _lock(folder) as file:
        with suppress(OSError):  # on a full disk, go on without a text
            file.truncate(0)
            file.write(f"process {os.getpid()}{_here()}".encode())
            os.fsync(file.fileno())
        try:
            with _beating(file):
                yield
        finally:
            with suppress(OSError):  # the folder of a run that began is not empty
                if _is_at(folder / LOCK, file):
                    (folder / LOCK).unlink()
                    folder.rmdir()


def is_reserved(folder: Path) -> bool:
    try:
        # A network file system refuses to lock a file that is open for reading only.
        with (folder / LOCK).open("r+b", buffering=0) as file:
            return not try_lock(file)
    except OSError:
        return False


def _lock(folder: Path) -> FileIO:
    while True:
        file = _open(folder)
        is_locked = try_lock(file)
        file.seek(0)
        owner = file.read(200).decode(errors="replace")
        is_here = not owner or owner.endswith(_here())
        if not is_locked if is_here else _is_beating(folder / LOCK, owner):
            file.close()
            raise InUseError(
                f"{folder} is in use by another run{owner and f' ({owner})'}; wait "
                "until that run ends, or stop it."
            )
        if _is_at(folder / LOCK, file):
            if is_locked:
                return file
            # The server keeps the lock of a dead machine.
            (folder / LOCK).unlink(missing_ok=True)
        file.close()  # its last owner removed the file before we locked it


def _here() -> str:
    return f" on {socket.gethostname()}"


@contextmanager
def _beating(file: FileIO) -> Iterator[None]:
    """Context manager: set the time of an open file at intervals, in a thread."""
    ended = Event()

    def beat() -> None:
        while not ended.wait(BEAT_SECONDS):
            with suppress(OSError, TypeError):  # TypeError: on Windows
                os.utime(file.fileno())

    thread = Thread(target=beat, name="gnnak-lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _is_beating(path: Path, owner: str) -> bool:
    """Return whether the time of a file changes within `SILENT_SECONDS`."""
    told = f"{path.parent} was locked by another machine ({owner}): waiting for up to"
    text = f"{told} {SILENT_SECONDS:g} seconds for a sign that it is alive."
    logging.getLogger("gnnak").warning(text)
    before, end = _file_time(path), time.monotonic() + SILENT_SECONDS
    while (now := _file_time(path)) == before and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    return now != before and now[0] == before[0]


def _is_at(path: Path, file: FileIO) -> bool:
    """Return whether an open file is still at its path."""
    return _file_time(path)[0] == os.fstat(file.fileno()).st_ino


def _file_time(path: Path) -> tuple[int, int]:
    """Return number and time of a file; zeros if there is none."""
    with suppress(OSError), path.open("rb") as file:  # opening asks the file server
        status = os.fstat(file.fileno())
        return status.st_ino, status.st_mtime_ns
    return 0, 0


def _open(folder: Path) -> FileIO:
    path = make_folder(folder) / LOCK
    try:
        return path.open("a+b", buffering=0)
    except OSError as error:
        raise FileFormatError(
            f"{path} cannot be written: {error.strerror}; choose another folder."
        ) from error
