"""Read text files that are compressed with gzip, such as `molecules.csv.gz`."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gnnak.errors import FileFormatError
from gnnak.graphs.readers.archive_size import memory_budget

TEXT_SUFFIXES = frozenset(
    {
        *(".csv", ".tsv", ".smi", ".g6", ".graph6"),
        *(".json", ".jsonl", ".edges", ".edgelist", ".txt"),
    }
)
"""Suffixes of text files; these files may be compressed with gzip."""


def format_suffix(path: Path) -> str:
    """Return the suffix that tells the format of a file, in lower case.

    The suffix `.gz` of a compressed text file is ignored.

    >>> format_suffix(Path("a.CSV.gz")), format_suffix(Path("a.tar.gz"))
    ('.csv', '.gz')
    """
    return _without_gz(path).suffix.lower()


def format_stem(path: Path) -> str:
    """Return the name of a file without the suffix that tells its format.

    >>> format_stem(Path("data/a.csv")), format_stem(Path("data/a.csv.gz"))
    ('a', 'a')
    """
    return _without_gz(path).stem


def is_packed(path: Path) -> bool:
    """Return whether a file is a text file that is compressed with gzip."""
    return _without_gz(path) != path


def _without_gz(path: Path) -> Path:
    """Return the path without `.gz`, if it is a compressed text file."""
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return inner if inner.suffix.lower() in TEXT_SUFFIXES else path


class PackedFile(gzip.GzipFile):
    """A gzip file that is unpacked while it is read; failures are one sentence.

    Args:
        path: The file.

    Raises:
        FileFormatError: While the file is read, if it is damaged or truncated, or if it
            unpacks to far more than its size suggests (a decompression bomb).
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._path = path
        self._budget = memory_budget(path.stat().st_size)

    def read(self, size: int | None = -1) -> bytes:
        """Return the next `size` decompressed bytes, or all of them if `size` < 0."""
        left = self._budget + 1 - self.tell()
        with self._checked():
            return super().read(left if size is None or size < 0 else min(size, left))

    def read1(self, size: int = -1) -> bytes:
        """Return some of the next bytes; see `io.BufferedIOBase.read1`."""
        with self._checked():
            return super().read1(size)

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Context manager: translate errors of gzip, and check the unpacked size."""
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FileFormatError(f"{self._path} {_problem(error)}.") from error
        if self.tell() > self._budget:
            raise FileFormatError(
                f"{self._path} unpacks to more than {self._budget / 1e9:.1f} GB, too "
                "much for its size; if the data are real, unpack the file first."
            )


def _problem(error: Exception) -> str:
    """Return what is wrong with a gzip file, and what to do."""
    if isinstance(error, EOFError):
        return "ends too early; compress or download the file again"
    if str(error).startswith("Not a gzipped file"):
        return "is not compressed with gzip; leave out .gz at the end of its name"
    return "is damaged; compress or download the file again"
