"""Write predictions to files; a command that was stopped can be continued."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnnak import __version__
from gnnak.datasets.record import DatasetInfo
from gnnak.errors import FileFormatError, OptionError
from gnnak.graphs.readers.files import try_lock, write_bytes
from gnnak.graphs.readers.table import import_pyarrow
from gnnak.training.predictions import Part, Predictions, joined
from gnnak.training.trained import TrainedModel


@dataclass
class Done:
    """How many rows and bytes have been written."""

    rows: int = 0
    """Number of rows of the data."""
    bad: int = 0
    """Number of rows of the data without a prediction."""
    predictions: int = 0
    """Number of rows of the output: in node tasks, one per node."""
    size: int = 0
    """Number of bytes of the output."""

    def add(self, part: Part, size: int = 0) -> None:
        self.rows += part.rows.num_rows
        self.bad += len(part.predictions.bad)
        self.predictions += len(part.predictions)
        self.size += size


def fingerprints(
    models: Sequence[TrainedModel], files: Sequence[Path], **options: Any
) -> dict[str, Any]:
    """Return what predictions depend on: hashes of models and files, and `options`."""
    weights, content = [], []
    for model in models:
        found = hashlib.sha256(repr((model.info, model.config.model)).encode())
        for name, tensor in model.network.state_dict().items():
            found.update(name.encode())
            found.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy())
        weights.append(found.hexdigest())
    for file in files:
        with file.open("rb") as opened:
            content.append(hashlib.file_digest(opened, "sha256").hexdigest())
    return {"models": weights, "data": content, **options, "version": __version__}


@contextmanager
def open_writer(
    path: Path | None,
    info: DatasetInfo,
    depends_on: dict[str, Any] | None = None,
    resume: bool = False,
) -> Iterator[TableWriter | ArrayWriter]:
    """Context manager: yield a writer of predictions to `path`, or stdout if None.

    A table is written to `PATH.part`, which becomes `PATH` at the end. If `depends_on`
    (from `fingerprints`) is given, a later command can continue the table after a kill:
    `PATH.part.json` says how many bytes of `PATH.part` are complete.
    """
    kind = "csv" if path is None else path.suffix.lower().removeprefix(".")
    if path is None:
        yield TableWriter(info, kind, Done(), lambda c: sys.stdout.write(c.decode()))
    elif kind == "npz":
        arrays = ArrayWriter()
        yield arrays
        write_bytes(path, arrays.content())
    else:
        with _draft(path, depends_on, resume) as (done, put):
            yield TableWriter(info, kind, done, put)


@contextmanager
def _draft(
    path: Path, depends_on: dict[str, Any] | None, resume: bool
) -> Iterator[tuple[Done, Callable[[bytes], None]]]:
    """Context manager: yield what a draft file has so far, and a function to append."""
    finish = _write_parquet if path.suffix.lower() == ".parquet" else os.replace
    part, note = (path.with_name(path.name + end) for end in (".part", ".part.json"))
    done = None
    try:
        with part.open("ab") as file:
            if not try_lock(file):
                raise OptionError(f"another command writes {part}; wait until it ends.")
            done = _written(part, note, depends_on or {}, resume)
            file.truncate(done.size)

            def put(content: bytes) -> None:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                if depends_on is not None:
                    told = {"depends_on": depends_on, "done": asdict(done)}
                    new = note.with_suffix(".new")
                    new.write_text(json.dumps(told))
                    os.replace(new, note)

            yield done, put
        finish(part, path)
        note.unlink(missing_ok=True)
    except OSError as error:
        raise FileFormatError(
            f"{path} cannot be written: {error.strerror or error}; check its folder."
        ) from error
    finally:
        if done is not None and not note.exists():
            part.unlink(missing_ok=True)


def _written(part: Path, note: Path, depends_on: dict[str, Any], resume: bool) -> Done:
    """Return how much a stopped command wrote; raise if this cannot be continued."""
    done = Done()
    with suppress(OSError, ValueError, KeyError, TypeError):  # no note, or damaged
        told = json.loads(note.read_bytes())
        before, stored = told["depends_on"], Done(**told["done"])
        if stored.size <= part.stat().st_size:  # else the file is finished
            done = stored
    if not done.rows:
        note.unlink(missing_ok=True)
    elif not resume:
        raise OptionError(
            f"{part} has the first {done.rows} rows of predictions that were stopped; "
            f"add --resume to continue them, or delete {part}."
        )
    elif other := [n for n in before if before[n] != depends_on.get(n)]:
        raise OptionError(
            f"{part} was begun with other {' and '.join(other)}, so --resume cannot "
            f"continue it; give the same command as before, or delete {part}."
        )
    return done


def _write_parquet(part: Path, path: Path) -> None:
    arrow, parquet = import_pyarrow(), import_pyarrow("pyarrow.parquet")
    draft = part.with_name(f"{part.name}.parquet")
    with arrow.OSFile(str(part)) as file:
        tables = _read_streams(file)
        first = next(tables)
        tables = chain([first], tables)
        with parquet.ParquetWriter(draft, first.schema) as writer:
            while group := list(islice(tables, ROW_GROUP)):
                writer.write_table(arrow.concat_tables(group))
    os.replace(draft, path)


ROW_GROUP = 50
"""Number of `Part`s of predictions that form one row group of a Parquet file."""


def _read_streams(file: Any) -> Iterator[Any]:
    while file.tell() < file.size():
        yield import_pyarrow().ipc.open_stream(file).read_all()


class TableWriter:
    """Writes one row per graph or node: columns of the input, predictions, error."""

    def __init__(
        self, info: DatasetInfo, kind: str, done: Done, put: Callable[[bytes], object]
    ) -> None:
        self.info, self.kind, self.done, self.put = info, kind, done, put

    def write(self, part: Part) -> None:
        given = _input_columns(part, self.done.rows)
        new = _output_columns(self.info, part.predictions, self.done.rows)
        for name in sorted(new.keys() & given.keys() - {"error"}):
            raise OptionError(
                f"the data have a column {name}, which the predictions would replace; "
                "rename the column."
            )
        columns = given | new
        if self.kind == "parquet":
            types = {field.name: field.type for field in part.rows.schema or ()}
            words = {"error"} | set(list(new)[: part.predictions.labels is not None])
            types |= {name: "string" if name in words else "double" for name in new}
            content = _arrow_stream(columns, types)
        else:
            content = self._text(columns).encode()
        self.done.add(part, len(content))
        self.put(content)

    def _text(self, columns: dict[str, Sequence[Any]]) -> str:
        text, rows = io.StringIO(newline=""), zip(*columns.values(), strict=True)
        if self.kind == "jsonl":
            lines = (dict(zip(columns, row, strict=True)) for row in rows)
            write = partial(json.dumps, ensure_ascii=False, default=str)
            return "".join(write(cells) + "\n" for cells in lines)
        delimiter = "\t" if self.kind == "tsv" else ","
        table = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        if not self.done.size:
            table.writerow(columns)
        table.writerows(["" if cell is None else cell for cell in row] for row in rows)
        return text.getvalue()


def _arrow_stream(columns: dict[str, Sequence[Any]], types: dict[str, Any]) -> bytes:
    """Return a table as a stream in Arrow's format; streams can be concatenated."""
    arrow, arrays = import_pyarrow(), []
    for name, values in columns.items():
        try:
            arrays.append(arrow.array(values, types.get(name)))
        except (arrow.ArrowException, OverflowError) as error:
            raise FileFormatError(
                f"column {name} cannot be written as Parquet ({error}); write .csv."
            ) from error
    batch, sink = arrow.record_batch(arrays, list(columns)), arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


class ArrayWriter:
    """Collects predictions, and returns them as the bytes of an npz file."""

    def __init__(self) -> None:
        self.done = Done()
        self.parts: list[Predictions] = []

    def write(self, part: Part) -> None:
        self.parts.append(part.predictions)
        self.done.add(part)

    def content(self) -> bytes:
        found = joined(self.parts)
        names = ("values", "deviation", "graph", "node")
        arrays: dict[str, Any] = {name: getattr(found, name) for name in names}
        arrays["columns"] = np.array(found.columns)
        arrays["bad"] = np.array([row.number for row in found.bad], dtype=np.int64)
        return npz_file(**{k: v for k, v in arrays.items() if v is not None})


def npz_file(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _input_columns(part: Part, first: int) -> dict[str, Sequence[Any]]:
    graph, node = part.predictions.graph, part.predictions.node
    if graph is not None and node is not None:
        return {"row": (graph + 1 + first).tolist(), "node": node.tolist()}
    if part.rows.columns:
        return dict(part.rows.columns)
    return {"row": list(range(first + 1, first + part.rows.num_rows + 1))}


def _output_columns(
    info: DatasetInfo, found: Predictions, first: int
) -> dict[str, Sequence[Any]]:
    """Return columns of predictions; `first` is the number of rows before this part."""
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
    return [
        None if math.isnan(value) else float(f"{value:.9g}")
        for value in values.tolist()
    ]
