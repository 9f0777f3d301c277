"""Refuse npz files whose arrays need far more memory than the file size suggests.

A few megabytes of compressed zeros can expand to gigabytes (a decompression bomb).
"""

import math
import os
import zipfile
from typing import IO

import numpy as np

from gnnak.errors import GraphError

SMALLEST_BUDGET = 2**30
"""Every file may need this much memory, in bytes, however small the file is."""
LARGEST_RATIO = 300
"""Bytes of memory that an array may need per byte of the file. Real data sets need
between 10 and 100: numbers of one byte in the file become int64 in memory."""
BYTES_PER_NUMBER = 8
BYTES_PER_NAME = 64
"""Memory of a number (int64), and of a short Python string, in bytes."""
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Functions that read the header of an npy file, by version of the format."""


def memory_budget(file_size: int) -> int:
    """Return how much memory the arrays of a file of this size may need, in bytes.

    >>> memory_budget(1000) == 2**30
    True
    """
    return max(SMALLEST_BUDGET, LARGEST_RATIO * file_size)


def check_budget(needed: int, file_size: int) -> None:
    """Raise `GraphError` if `needed` bytes exceed the memory budget of the file."""
    if needed > memory_budget(file_size):
        raise GraphError(
            f"its arrays need {needed / 1e9:.1f} GB of memory, too much for a file of "
            f"{file_size / 1e6:.1f} MB; if the data are real, write the file without "
            "compression, with numpy.savez."
        )


def check_size(content: IO[bytes]) -> None:
    """Raise `GraphError` if the arrays of an npz file need too much memory.

    Only the headers of the arrays are decompressed.

    Args:
        content: The npz file, open for reading.
    """
    with zipfile.ZipFile(content) as archive:
        needed = sum(_bytes_needed(archive, info) for info in archive.infolist())
    check_budget(needed, os.fstat(content.fileno()).st_size)


def _bytes_needed(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Return the memory that one array of an npz file needs, in bytes.

    An empty axis counts as 1, so that an array of shape [0, 10^12] is not free. A
    member of the file that is not an array counts with its uncompressed size.
    """
    with archive.open(info) as member:
        header = _shape_and_dtype(member)
    if header is None:
        return info.file_size
    shape, dtype = header
    if math.prod(shape) * dtype.itemsize > info.file_size:
        raise GraphError(
            f"{info.filename.removesuffix('.npy')} cannot be read: its header "
            f"announces shape {list(shape)}, more than the file contains."
        )
    least = BYTES_PER_NUMBER if dtype.kind in "biuf" else BYTES_PER_NAME
    entries = math.prod(max(length, 1) for length in shape)
    return entries * max(dtype.itemsize, least)


def _shape_and_dtype(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype] | None:
    """Read the header of an array; return None if the member is not an array."""
    try:
        read = HEADERS[np.lib.format.read_magic(member)]
    except (ValueError, KeyError):
        return None
    shape, _, dtype = read(member)
    return shape, dtype
