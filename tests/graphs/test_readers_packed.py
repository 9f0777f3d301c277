"""Text files that are compressed with gzip."""

import gzip
import io
from pathlib import Path

import pytest

from gnnak.errors import FileFormatError
from gnnak.graphs.readers import files
from gnnak.graphs.readers.files import (
    TEXT_SUFFIXES,
    format_stem,
    format_suffix,
    is_packed,
    open_bytes,
    read_bytes,
)

TEXT = "".join(f"{number},{number**2}\n" for number in range(5000)).encode()


@pytest.mark.parametrize(
    ("name", "suffix", "stem"),
    [
        ("a.csv", ".csv", "a"),
        ("a.CSV.GZ", ".csv", "a"),
        ("a.b.smi.gz", ".smi", "a.b"),
        ("a.npz.gz", ".gz", "a.npz"),
        ("a.tar.gz", ".gz", "a.tar"),
        ("a.gz", ".gz", "a"),
        ("a", "", "a"),
        (".gz", "", ".gz"),
        ("CCO", "", "CCO"),
    ],
)
def test_the_format_of_a_compressed_text_file_is_told_without_gz(name, suffix, stem):
    path = Path("folder.csv") / name
    assert (format_suffix(path), format_stem(path)) == (suffix, stem)
    assert is_packed(path) == (suffix in TEXT_SUFFIXES and name.lower()[-3:] == ".gz")


def test_compressed_text_is_read_like_plain_text(tmp_path):
    path = tmp_path / "t.csv.gz"
    # A gzip file may have several members, one after the other.
    path.write_bytes(gzip.compress(TEXT[:20_000]) + gzip.compress(TEXT[20_000:]))
    assert read_bytes(path) == TEXT
    assert read_bytes(path, at_most=len(TEXT)) == TEXT
    with pytest.raises(FileFormatError, match="more than 100 bytes"):
        read_bytes(path, at_most=100)
    with open_bytes(path) as file:
        text = io.TextIOWrapper(file)
        first = text.readline()
        text.seek(0)
        assert [first, *list(text)[1:]] == TEXT.decode().splitlines(keepends=True)


def test_only_compressed_text_files_are_unpacked(tmp_path):
    content = gzip.compress(TEXT)
    for name in ("t.csv", "t.npz.gz", "t.gz"):
        (tmp_path / name).write_bytes(content)
        assert read_bytes(tmp_path / name) == content


@pytest.mark.parametrize("length", [1, 5, 9, 12, 2000, -9, -5, -1])
def test_a_truncated_file_is_a_sentence_wherever_it_ends(tmp_path, length):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(TEXT)[:length])
    with pytest.raises(
        FileFormatError, match=r"t\.csv\.gz (ends too early|is not com)"
    ):
        read_bytes(path)


def test_a_missing_file_and_a_folder_are_sentences(tmp_path):
    with pytest.raises(FileFormatError, match="there is no file"):
        read_bytes(tmp_path / "none.csv.gz")
    (tmp_path / "folder.csv.gz").mkdir()
    with pytest.raises(FileFormatError, match="is a folder; give"):
        read_bytes(tmp_path / "folder.csv.gz")


def test_a_decompression_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SMALLEST_BUDGET", 10_000)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(bytes(1_000_000)))
    with pytest.raises(FileFormatError, match=r"unpacks to more than .* too much"):
        read_bytes(path)
    with open_bytes(path) as file, pytest.raises(FileFormatError, match="unpacks to"):
        list(io.TextIOWrapper(file))
