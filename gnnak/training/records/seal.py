"""Append a checksum to a file, and verify the checksum when the file is read.

The checksum is a SHA-256 hash of all bytes of the file. `torch.load` does not notice
most damage of a file, and ignores bytes at the end: it reads files with a checksum too.
"""

import hashlib
import os
from pathlib import Path

TAG = b"\ngnnak sha256 "
"""The bytes between the content of a file and its checksum."""
LENGTH = len(TAG) + hashlib.sha256().digest_size
"""Number of bytes that follow the content of a file."""


def sealed(content: bytes) -> bytes:
    """Return the content of a file, followed by its checksum."""
    return content + TAG + hashlib.sha256(content).digest()


def unsealed(content: bytes) -> bytes:
    """Return the content of a file without its checksum.

    A file without a checksum, from an older version, is returned unchanged.

    Raises:
        ValueError: If the checksum is wrong.
    """
    inner, seal = content[:-LENGTH], content[-LENGTH:]
    if not seal.startswith(TAG):
        return content
    if sealed(inner) != content:
        raise ValueError("the checksum of the file is wrong")
    return inner


def seal_file(path: Path) -> None:
    """Append the checksum of a file to the file, and wait until all is on the disk."""
    seal = sealed(path.read_bytes())[-LENGTH:]
    with path.open("ab") as file:
        file.write(seal)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder are on the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
