"""Work of `gnnak predict`: load the models, predict part by part, write the rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gnnak.backend import use_backend
from gnnak.cli.prediction_checks import SUFFIXES, check_models, check_output
from gnnak.cli.prediction_files import open_writer
from gnnak.errors import FileFormatError, OptionError, counted
from gnnak.graphs.readers.files import write_bytes
from gnnak.training.predictions import Predictions, predict_parts
from gnnak.training.processes.machine import Machine
from gnnak.training.trained import TrainedModel, load


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
    """Predict for all rows of a file and write them.

    Raises:
        FileFormatError: If no row could be predicted; all rows are written even so.
    """
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
