"""Locks on open files, which the operating system releases when a process ends.

They have no effect on Windows and on file systems without locks.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def try_lock(file: FileIO) -> bool:
    """Lock an open file; return False if another process has locked it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


@contextmanager
def locked_file(file: FileIO) -> Iterator[None]:
    """Context manager: wait until no other process has locked an open file; lock it."""
    if fcntl is None:
        yield
        return
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)
