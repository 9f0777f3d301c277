"""Read and write files, which may be compressed. Failures raise `FileFormatError`."""

import gzip
import math
import os
import re
import secrets
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import IO, cast

import numpy as np

from gnnak.errors import FileFormatError, GraphError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def try_lock(file: FileIO | IO[bytes]) -> bool:
    """Lock an open file; return False if another process has locked it."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True


@contextmanager
def locked_file(file: FileIO) -> Iterator[None]:
    """Context manager: lock an open file; wait while another process has locked it."""
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


FilePath = str | os.PathLike[str]


def open_bytes(path: FilePath) -> IO[bytes]:
    where = Path(path)
    if where.is_dir():
        raise FileFormatError(f"{where} is a folder; give the path of a file.")
    with (
        refusing(f"{where} cannot be read", OSError, ValueError, reason=True),
        refusing(f"there is no file {where}; check the path.", FileNotFoundError),
    ):
        if is_packed(where):
            return cast("IO[bytes]", PackedFile(where))
        return open(where, "rb")


def share_read(file: IO[bytes]) -> float:
    """Return which share of an open file, compressed or not, has been read."""
    place = os.lseek(file.fileno(), 0, os.SEEK_CUR)
    return place / max(os.fstat(file.fileno()).st_size, 1)


def visible_files(folder: Path) -> list[Path]:
    """Return the entries of a folder; `graph2.pt` comes before `graph10.pt`."""
    files = [file for file in folder.iterdir() if not file.name.startswith(".")]
    return sorted(files, key=lambda file: _natural(file.name))


def _natural(name: str) -> list[tuple[int, str]]:
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def read_bytes(path: FilePath, at_most: int | None = None) -> bytes:
    failed = refusing(f"{path} cannot be read", OSError, reason=True)
    with open_bytes(path) as file, failed:
        content = file.read(-1 if at_most is None else at_most + 1)
    if at_most is not None and len(content) > at_most:
        told = f"{path} has more than {at_most} bytes"
        raise FileFormatError(f"{told}; give a smaller file.")
    return content


@contextmanager
def refusing(
    told: str, *kinds: type[Exception], reason: bool = False
) -> Iterator[None]:
    """Context manager: turn errors (or only `kinds`) into `FileFormatError(told)`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, FileFormatError) or not isinstance(error, kinds or object):
            raise
        text = f"{told}: {str(error).rstrip('.')}." if reason else told
        raise FileFormatError(text) from error


def read_text(path: FilePath, see: str, at_most: int | None = None) -> str:
    """Return the text of a UTF-8 file. Error messages refer to the page `see`."""
    with refusing(f"{path} is not UTF-8 text; see {see}.", UnicodeDecodeError):
        return read_bytes(path, at_most).decode("utf-8-sig")


def make_folder(path: FilePath) -> Path:
    where = Path(path)
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        told = f"the folder {where} cannot be made: {error.strerror}"
        raise FileFormatError(f"{told}; choose another one.") from error
    return where


def write_bytes(path: FilePath, content: bytes) -> None:
    """Write a file atomically: readers see the old or the complete new content."""
    where = Path(path)
    if where.is_dir():
        raise FileFormatError(f"{where} is a folder; give the path of a file.")
    # A temporary file in the same folder is renamed when it is complete.
    draft = where.with_name(f".{where.name}.{secrets.token_hex(8)}.part")
    try:
        with open(draft, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, where)
    except OSError as error:
        draft.unlink(missing_ok=True)
        told = f"{where} cannot be written: {error.strerror}"
        raise FileFormatError(f"{told}; check its folder.") from error


SMALLEST_BUDGET = 2**30
"""The arrays of a small file may take this many bytes of memory."""
LARGEST_RATIO = 300
"""Limit on bytes of memory per byte of a large file; real data sets need up to 100."""
BYTES_PER_NUMBER = 8
BYTES_PER_NAME = 64
"""Memory of a short Python string, in bytes."""
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def memory_budget(file_size: int) -> int:
    return max(SMALLEST_BUDGET, LARGEST_RATIO * file_size)


def check_budget(needed: int, file_size: int) -> None:
    if needed > memory_budget(file_size):
        told = f"its arrays need {needed / 1e9:.1f} GB of memory, too much for a file"
        advice = "if the data are real, write the file without compression, with"
        raise GraphError(f"{told} of {file_size / 1e6:.1f} MB; {advice} numpy.savez.")


def check_size(content: IO[bytes]) -> None:
    """Raise `GraphError` if the arrays of an npz file would need too much memory."""
    with zipfile.ZipFile(content) as archive:
        needed = sum(_bytes_needed(archive, info) for info in archive.infolist())
    check_budget(needed, os.fstat(content.fileno()).st_size)


def _bytes_needed(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    with archive.open(info) as member:
        try:
            read = HEADERS[np.lib.format.read_magic(member)]
        except (ValueError, KeyError):
            return info.file_size
        shape, _, dtype = read(member)
    if dtype.hasobject:  # These arrays are refused when they are read.
        return info.file_size
    if math.prod(shape) * dtype.itemsize > info.file_size:
        told = f"{info.filename.removesuffix('.npy')} cannot be read: its header"
        shown = f"announces shape {list(shape)}, more than the file contains"
        raise GraphError(f"{told} {shown}.")
    least = BYTES_PER_NUMBER if dtype.kind in "biuf" else BYTES_PER_NAME
    # An empty axis counts as 1, so that an array of shape [0, 10^12] is not free.
    entries = math.prod(max(length, 1) for length in shape)
    return entries * max(dtype.itemsize, least)


TEXT_SUFFIXES = frozenset(
    {
        *(".csv", ".tsv", ".smi", ".g6", ".graph6"),
        *(".json", ".jsonl", ".edges", ".edgelist", ".txt"),
    }
)
"""Suffixes of text files; these files may be compressed with gzip."""


def format_suffix(path: Path) -> str:
    """Return the suffix of a file in lower case: `.csv`, also for `graphs.CSV.gz`."""
    return _without_gz(path).suffix.lower()


def format_stem(path: Path) -> str:
    """Return the name of a file without the suffix that tells its format."""
    return _without_gz(path).stem


def is_packed(path: Path) -> bool:
    return _without_gz(path) != path


def _without_gz(path: Path) -> Path:
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return inner if inner.suffix.lower() in TEXT_SUFFIXES else path


class PackedFile(gzip.GzipFile):
    """A gzip file that is decompressed while it is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._path = path
        self._budget = memory_budget(path.stat().st_size)

    def read(self, size: int | None = -1) -> bytes:
        left = self._budget + 1 - self.tell()
        with self._checked():
            return super().read(left if size is None or size < 0 else min(size, left))

    def read1(self, size: int = -1) -> bytes:
        with self._checked():
            return super().read1(size)

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Context manager: raise `FileFormatError` on gzip errors and too much data."""
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FileFormatError(f"{self._path} {_problem(error)}.") from error
        if self.tell() > self._budget:
            told = f"{self._path} unpacks to more than {self._budget / 1e9:.1f} GB, too"
            advice = "if the data are real, unpack the file first"
            raise FileFormatError(f"{told} much for its size; {advice}.")


def _problem(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "ends too early; compress or download the file again"
    if str(error).startswith("Not a gzipped file"):
        return "is not compressed with gzip; leave out .gz at the end of its name"
    return "is damaged; compress or download the file again"
