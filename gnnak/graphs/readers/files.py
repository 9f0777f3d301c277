"""Read and write whole files; every failure raises `FileFormatError`."""

import os
import secrets
from pathlib import Path
from typing import IO, cast

from gnnak.errors import FileFormatError
from gnnak.graphs.readers.packed import PackedFile, is_packed

FilePath = str | os.PathLike[str]
"""Path of a file or folder."""


def open_bytes(path: FilePath) -> IO[bytes]:
    """Open a file for reading; a compressed text file (see `packed`) is unpacked.

    Raises:
        FileFormatError: If the file does not exist, is a folder or cannot be opened.
    """
    where = Path(path)
    if where.is_dir():
        raise FileFormatError(f"{where} is a folder; give the path of a file.")
    try:
        if is_packed(where):
            return cast("IO[bytes]", PackedFile(where))
        return open(where, "rb")
    except FileNotFoundError as error:
        raise FileFormatError(f"there is no file {where}; check the path.") from error
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{where} cannot be read: {error}.") from error


def read_bytes(path: FilePath, at_most: int | None = None) -> bytes:
    """Return the content of a file.

    Args:
        path: The file.
        at_most: The largest size, in bytes, of the file; None = any size.

    Raises:
        FileFormatError: If the file does not exist, is a folder, cannot be read or is
            too large.
    """
    with open_bytes(path) as file:
        try:
            content = file.read(-1 if at_most is None else at_most + 1)
        except OSError as error:
            raise FileFormatError(f"{path} cannot be read: {error}.") from error
    if at_most is not None and len(content) > at_most:
        raise FileFormatError(
            f"{path} has more than {at_most} bytes; give a smaller file."
        )
    return content


def make_folder(path: FilePath) -> Path:
    """Create a folder and its parents if they do not exist; return the folder's path.

    Raises:
        FileFormatError: If the folder cannot be created.
    """
    where = Path(path)
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileFormatError(
            f"the folder {where} cannot be made: {error.strerror}; choose another one."
        ) from error
    return where


def write_bytes(path: FilePath, content: bytes) -> None:
    """Write a file atomically: readers see either the old or the complete new content.

    The content is written to a temporary file in the same folder, which is then
    renamed to `path`.

    Raises:
        FileFormatError: If the folder does not exist or cannot be written to.
    """
    where = Path(path)
    if where.is_dir():
        raise FileFormatError(f"{where} is a folder; give the path of a file.")
    draft = where.with_name(f".{where.name}.{secrets.token_hex(8)}.part")
    try:
        with open(draft, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, where)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise FileFormatError(
            f"{where} cannot be written: {error.strerror}; check its folder."
        ) from error
