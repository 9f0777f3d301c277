"""Check the files that `gnnak predict` reads and writes, before any work."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from gnnak.datasets.own.read import READERS
from gnnak.errors import FileFormatError, OptionError
from gnnak.graphs.readers.files import format_suffix
from gnnak.graphs.readers.table import TABLE_SUFFIXES
from gnnak.typing import check_choice

SUFFIXES = (".csv", ".tsv", ".jsonl", ".npz")
"""Suffixes of files with predictions."""
DATA_SUFFIXES = {*TABLE_SUFFIXES, *READERS} - {".pt", ".pth"}
"""Suffixes that only data have; checkpoints may end in `.pt`."""


def check_models(models: Sequence[Path]) -> None:
    """Raise `OptionError` if a file with data is given in place of a model."""
    for path in models:
        if format_suffix(path) in DATA_SUFFIXES and not path.is_dir():
            raise OptionError(
                f"{path} is a file with data, not a model; give the models first and "
                "one file with data last, as in: gnnak predict best.ckpt new.csv."
            )


def check_output(path: Path | None, data: Path, suffixes: Sequence[str]) -> None:
    """Raise an error if a file cannot be written.

    Args:
        path: The file to write; None = no file is written.
        data: The file that is read.
        suffixes: The suffixes that the file may have.

    Raises:
        OptionError: If the suffix is unknown, or if both are the same file.
        FileFormatError: If the path is a folder, or cannot be written.
    """
    if path is None:
        return
    check_choice(f"the suffix of {path}", path.suffix.lower(), suffixes)
    if path.is_dir():
        raise FileFormatError(f"{path} is a folder; give the path of a file.")
    if not path.parent.is_dir():
        raise FileFormatError(f"there is no folder {path.parent}; create it first.")
    if not os.access(path.parent, os.W_OK):
        raise FileFormatError(
            f"the folder {path.parent} cannot be written to; give another folder."
        )
    if path.exists() and data.exists() and path.samefile(data):
        raise OptionError(
            f"the output {path} is the file to predict for; give another file with -o."
        )


def check_new_columns(new: Iterable[str], columns: Iterable[str]) -> None:
    """Raise `OptionError` if predictions would replace a column of the input.

    A column `error` of the input is replaced, since earlier predictions wrote it.
    """
    for name in sorted(set(new) & set(columns) - {"error"}):
        raise OptionError(
            f"the data have a column {name}, which the predictions would replace; "
            "rename the column."
        )
