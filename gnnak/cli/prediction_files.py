"""Write predictions to CSV, TSV, JSON lines or npz files."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from gnnak.cli.prediction_checks import check_new_columns
from gnnak.datasets.record import DatasetInfo
from gnnak.errors import FileFormatError
from gnnak.graphs.readers.files import write_bytes
from gnnak.training.predictions import Part, Predictions


class Writer(Protocol):
    """Writes predictions part by part."""

    def write(self, part: Part) -> None:
        """Write the predictions for some consecutive rows."""


@contextmanager
def open_writer(path: Path | None, info: DatasetInfo) -> Iterator[Writer]:
    """Context manager: open a file for predictions; None = print CSV.

    The file appears under its name only when all rows have been written.
    """
    if path is None:
        yield TableWriter(sys.stdout, info, "csv")
        return
    suffix = path.suffix.lower()
    if suffix == ".npz":
        arrays = ArrayWriter()
        yield arrays
        write_bytes(path, arrays.content())
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with draft.open("x", encoding="utf-8", newline="") as file:
            yield TableWriter(file, info, suffix.removeprefix("."))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise FileFormatError(
            f"{path} cannot be written: {error.strerror}; check its folder."
        ) from error
    finally:
        draft.unlink(missing_ok=True)


class TableWriter:
    """Write one row per graph: the input's columns, predictions, and the error.

    Args:
        file: The open text file.
        info: Task and targets of the model.
        kind: `csv`, `tsv` or `jsonl`.
    """

    def __init__(self, file: IO[str], info: DatasetInfo, kind: str) -> None:
        self.file, self.info, self.kind = file, info, kind
        delimiter = "\t" if kind == "tsv" else ","
        self.table = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        self.began = False
        self.count = 0

    def write(self, part: Part) -> None:
        """Write the rows of a part, after the header if it is the first part."""
        given = input_columns(part, self.count)
        new = output_columns(self.info, part.predictions, self.count)
        check_new_columns(new, given)
        columns = given | new
        self.count += part.rows.num_rows
        if self.kind == "jsonl":
            for row in zip(*columns.values(), strict=True):
                cells = dict(zip(columns, row, strict=True))
                self.file.write(json.dumps(cells, ensure_ascii=False) + "\n")
            return
        if not self.began:
            self.table.writerow(columns)
            self.began = True
        for row in zip(*columns.values(), strict=True):
            self.table.writerow(["" if cell is None else cell for cell in row])


class ArrayWriter:
    """Collect predictions, and return them as the content of an npz file."""

    def __init__(self) -> None:
        self.parts: list[Predictions] = []

    def write(self, part: Part) -> None:
        """Add the predictions of a part."""
        self.parts.append(part.predictions)

    def content(self) -> bytes:
        """Return the npz file: `values`, `columns`, `deviation`, `bad`, `graph`."""
        arrays: dict[str, Any] = {"columns": np.array(self.parts[0].columns)}
        for name in ("values", "deviation", "graph"):
            found = [getattr(part, name) for part in self.parts]
            if found[0] is not None:
                arrays[name] = np.concatenate(found)
        bad = [row.number for part in self.parts for row in part.bad]
        arrays["bad"] = np.array(bad, dtype=np.int64)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        return buffer.getvalue()


def input_columns(part: Part, first: int) -> dict[str, Sequence[Any]]:
    """Return the columns of the input table, or the number of each row or node.

    Args:
        part: The rows.
        first: Number of rows before this part.
    """
    graph = part.predictions.graph
    if graph is not None:
        start = np.flatnonzero(np.diff(graph, prepend=-1))
        node = np.arange(len(graph)) - np.repeat(
            start, np.diff(np.append(start, len(graph)))
        )
        return {"row": (graph + 1 + first).tolist(), "node": node.tolist()}
    if part.rows.columns:
        return dict(part.rows.columns)
    return {"row": list(range(first + 1, first + part.rows.num_rows + 1))}


def output_columns(
    info: DatasetInfo, found: Predictions, first: int
) -> dict[str, Sequence[Any]]:
    """Return the columns of predictions by name, and the column `error`.

    Args:
        info: Task and targets of the model.
        found: The predictions.
        first: Number of rows before these.
    """
    columns: dict[str, Sequence[Any]] = {}
    if found.labels is not None:
        columns[f"predicted_{(info.targets or ('class',))[0]}"] = found.labels
    prefix = "predicted" if info.task == "regression" else "probability"
    for place, name in enumerate(found.columns):
        columns[f"{prefix}_{name}"] = _numbers(found.values[:, place])
        if found.deviation is not None:
            deviation = _numbers(found.deviation[:, place])
            columns[f"{prefix}_{name}_deviation"] = deviation
    if found.graph is None:
        reasons = {row.number - 1 - first: row.reason for row in found.bad}
        columns["error"] = [reasons.get(row) for row in range(len(found))]
    return columns


def _numbers(values: np.ndarray) -> list[float | None]:
    """Return numbers with all digits that count in float32; None for NaN."""
    return [
        None if math.isnan(value) else float(f"{value:.9g}")
        for value in values.tolist()
    ]
