"""Read and write whole files; every failure raises `FileFormatError`."""

import os
import secrets
from pathlib import Path

from gnnak.errors import FileFormatError

FilePath = str | os.PathLike[str]
"""Path of a file or folder."""


def read_bytes(path: FilePath) -> bytes:
    """Return the content of a file.

    Raises:
        FileFormatError: If the file does not exist, is a folder or cannot be read.
    """
    where = Path(path)
    if where.is_dir():
        raise FileFormatError(f"{where} is a folder; give the path of a file.")
    try:
        return where.read_bytes()
    except FileNotFoundError as error:
        raise FileFormatError(f"there is no file {where}; check the path.") from error
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{where} cannot be read: {error}.") from error


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
