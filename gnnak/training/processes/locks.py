"""A lock on the folder of a run; the operating system releases it after a kill."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from lightning.fabric.utilities.rank_zero import rank_zero_only

from gnnak.errors import FileFormatError, TrainingError
from gnnak.graphs.readers.files import make_folder, try_lock

LOCK = "run.lock"
"""The lock file in the folder of a run; its text says which process has the lock."""


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
        with suppress(OSError):  # the text is only for error messages
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        try:
            yield
        finally:
            with suppress(OSError):  # the folder of a run that began is not empty
                (folder / LOCK).unlink(missing_ok=True)
                folder.rmdir()


def is_reserved(folder: Path) -> bool:
    try:
        with (folder / LOCK).open("rb", buffering=0) as file:
            return not try_lock(file)
    except OSError:
        return False


def _lock(folder: Path) -> FileIO:
    while True:
        file = _open(folder)
        if not try_lock(file):
            with file:
                file.seek(0)
                owner = file.read(200).decode(errors="replace")
            raise InUseError(
                f"{folder} is in use by another run{owner and f' ({owner})'}; wait "
                "until that run ends, or stop it."
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(folder / LOCK)):
                return file
        file.close()  # its last owner removed the file before we locked it


def _open(folder: Path) -> FileIO:
    path = make_folder(folder) / LOCK
    try:
        return path.open("a+b", buffering=0)
    except OSError as error:
        raise FileFormatError(
            f"{path} cannot be written: {error.strerror}; choose another folder."
        ) from error
