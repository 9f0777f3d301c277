"""The work of `gnnak predict`: load models, predict part by part, write files."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gnnak.backend import use_backend
from gnnak.datasets.own.read import READERS
from gnnak.datasets.record import DatasetInfo
from gnnak.errors import FileFormatError, OptionError, counted
from gnnak.graphs.readers.files import format_suffix, write_bytes
from gnnak.graphs.readers.table import TABLE_SUFFIXES
from gnnak.training.predictions import Part, Predictions, predict_parts
from gnnak.training.processes.machine import Machine
from gnnak.training.trained import TrainedModel, load
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
    """Raise an error if a file cannot be written."""
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
    """Write one row per graph: the input's columns, predictions, and the error."""

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
    """Return the columns of the input table, or the number of each row or node."""
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
    """Return the columns of predictions by name, and the column `error`."""
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


class Task(NamedTuple):
    """What `gnnak predict` has been asked for."""

    checkpoints: Sequence[Path]
    """The checkpoints of the models."""
    data: Path
    """The file or folder of the graphs."""
    output: Path | None
    """The file to write; None = print CSV."""
    embeddings: Path | None
    """The npz file for the states before the head; None = they are not written."""
    smiles: str | None
    """Column with SMILES strings; None = as in training."""
    batch_size: int | None
    """Graphs per forward pass; None = the default."""


def run_predict(task: Task, machine: Machine, as_json: bool) -> None:
    """Predict for all rows of a file and write them."""
    _check(task)
    models = [_ready(path, machine) for path in task.checkpoints]
    states: list[np.ndarray] = []
    count, good, bad = 0, 0, 0
    with (
        use_backend(machine.backend),
        open_writer(task.output, models[0].info) as writer,
        _bar(task.data.name) as advance,
    ):
        for part in predict_parts(
            models,
            task.data,
            task.batch_size,
            task.embeddings is not None,
            advance,
            task.smiles,
        ):
            writer.write(part)
            states += _states(part.predictions)
            count += len(part.predictions)
            bad += len(part.predictions.bad)
            good += len(part.rows)
    if task.embeddings is not None:
        content = BytesIO()
        np.savez_compressed(content, embeddings=np.concatenate(states))
        write_bytes(task.embeddings, content.getvalue())
    if as_json or good or not bad:
        _tell(task, count, bad, as_json)
    if bad and not good:
        place = "" if task.output is None else f" of {task.output}"
        raise FileFormatError(
            f"no row of {task.data} could be predicted; see the column error{place}."
        )


def _check(task: Task) -> None:
    """Raise an error if a file cannot be written, or data are given as a model."""
    check_models(task.checkpoints)
    check_output(task.output, task.data, SUFFIXES)
    check_output(task.embeddings, task.data, (".npz",))
    if task.output is not None and task.output == task.embeddings:
        raise OptionError(
            f"predictions and embeddings would both be written to {task.output}; give "
            "two files."
        )


def _ready(path: Path, machine: Machine) -> TrainedModel:
    """Load a model and move it to the device."""
    model = load(path)
    model.network.save_memory(recompute=False, max_copies=machine.max_copies)
    return model.to("cuda" if machine.is_gpu else "cpu")


def _states(predictions: Predictions) -> list[np.ndarray]:
    return [] if predictions.embeddings is None else [predictions.embeddings]


def _tell(task: Task, count: int, bad: int, as_json: bool) -> None:
    """Say how many rows were written, and how many of them have no prediction."""
    have = "has" if bad == 1 else "have"
    if task.output is None:
        if bad:
            rows = f"{bad} of {counted(count, 'row')}"
            typer.echo(f"{rows} {have} no prediction.", err=True)
        return
    if as_json:
        told: dict[str, Any] = {"rows": count, "bad": bad, "output": str(task.output)}
        typer.echo(json.dumps(told))
        return
    lost = f"; {bad} {have} no prediction, see the column error" if bad else ""
    models = len(task.checkpoints)
    mean = f", mean of {models} models" if models > 1 else ""
    typer.echo(f"{task.output}: {counted(count, 'row')}{mean}{lost}", err=True)


@contextmanager
def _bar(name: str) -> Iterator[Any]:
    """Context manager: show how many rows are done; yield a function that says it."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn(f"{name}: {{task.completed}} rows"),
        TimeElapsedColumn(),
    )
    hidden = not console.is_terminal or not sys.stderr.isatty()
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        rows = bar.add_task(name, total=None)
        yield lambda done: bar.update(rows, completed=done)
