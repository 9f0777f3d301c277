"""Predict for many graphs with one trained network or with several."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.own.features import with_node_features
from gnnak.datasets.own.molecules import molecule_chunks, need_featurizer
from gnnak.datasets.own.read import Reading, as_rows
from gnnak.datasets.record import DatasetInfo
from gnnak.errors import CheckpointError, SizeError
from gnnak.graphs import GraphStore
from gnnak.graphs.readers.files import format_suffix
from gnnak.graphs.readers.rows import BadRow, GraphRows, check_any
from gnnak.graphs.readers.table import TABLE_SUFFIXES
from gnnak.models.network import Network
from gnnak.typing import check_count


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for the rows of a file or list, in their order.

    A row is a graph, or in node tasks a node. In shapes, r is the number of rows.
    """

    values: np.ndarray
    """[r, columns], float64: values of the targets in their own units; probabilities of
    the classes; or probabilities of the labels. NaN in bad rows."""
    columns: tuple[str, ...]
    """Names of the columns: the targets, classes or labels."""
    deviation: np.ndarray | None = None
    """[r, columns]: standard deviation over the networks of an ensemble; None for one
    network."""
    labels: tuple[str | None, ...] | None = None
    """The most probable class of each row, None in bad rows; None if the task is not
    classification."""
    bad: tuple[BadRow, ...] = ()
    """The rows that are not graphs; they are numbered from 1."""
    graph: np.ndarray | None = None
    """[r]: in node tasks, the graph of each row (node), from 0; else None."""
    embeddings: np.ndarray | None = None
    """[r, c], float32: the states that the head of the (first) network takes; None if
    they were not asked for."""

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return (
            f"Predictions(rows={len(self)}, columns={list(self.columns[:5])}, "
            f"bad={len(self.bad)})"
        )


class Part(NamedTuple):
    """Predictions for some consecutive rows of a file."""

    rows: GraphRows
    """The graphs of these rows, and the columns of the table."""
    predictions: Predictions
    """The predictions for these rows."""


def class_names(info: DatasetInfo) -> tuple[str, ...]:
    """Return the names of the classes; numbers as text if they have no names."""
    return info.classes or tuple(str(i) for i in range(info.num_outputs))


def column_names(info: DatasetInfo) -> tuple[str, ...]:
    """Return the names of the outputs: targets, classes or labels."""
    if info.task == "classification":
        return class_names(info)
    if len(info.targets) == info.num_outputs:
        return info.targets
    if info.num_outputs == 1:
        return ("y",)
    return tuple(f"y{i}" for i in range(info.num_outputs))


def joined(parts: Sequence[Predictions]) -> Predictions:
    """Concatenate the predictions for consecutive rows."""
    if len(parts) == 1:
        return parts[0]
    fields: dict[str, Any] = {}
    for name in ("values", "deviation", "graph", "embeddings"):
        found = [getattr(part, name) for part in parts]
        fields[name] = None if found[0] is None else np.concatenate(found)
    labels = [part.labels for part in parts]
    return replace(
        parts[0],
        **fields,
        labels=None if labels[0] is None else tuple(t for p in labels for t in p or ()),
        bad=tuple(row for part in parts for row in part.bad),
    )


BATCH_SIZE = 256
"""Number of graphs per forward pass if the user gives none."""


class Predictor(Protocol):
    """What `predict` needs of a trained model; `TrainedModel` has it."""

    network: Network

    @property
    def info(self) -> DatasetInfo:
        """Task, features, targets and classes of the training data."""

    @property
    def reading(self) -> Reading:
        """The columns and attributes that new data are read with."""

    def __call__(self, graphs: Any) -> Tensor:
        """Return targets in their own units, or logits."""


def predict(
    models: Sequence[Predictor],
    graphs: Any,
    batch_size: int | None = None,
    embeddings: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Predictions:
    """Predict for all rows of a file or list; see `predict_parts`."""
    parts = [
        part.predictions
        for part in predict_parts(models, graphs, batch_size, embeddings, progress)
    ]
    return joined(parts)


def predict_parts(
    models: Sequence[Predictor],
    graphs: Any,
    batch_size: int | None = None,
    embeddings: bool = False,
    progress: Callable[[int], None] | None = None,
    smiles: str | None = None,
) -> Iterator[Part]:
    """Predict for the rows of a file or list; a large table is read in parts.

    Args:
        models: The trained networks; the predictions of several are averaged.
        graphs: Path of a file or folder, or a list; see `as_rows`.
        batch_size: Graphs per forward pass; None = up to 256.
        embeddings: Whether to return the states before the head as well.
        progress: Called with the number of rows done so far.
        smiles: Column with SMILES strings; None = as in training.

    Yields:
        The predictions for consecutive rows.

    Raises:
        CheckpointError: If the networks predict different targets.
    """
    _check_alike(models)
    if batch_size is not None:
        check_count("batch_size", batch_size, least=1)
    done = 0
    for rows in _parts(models[0], graphs, smiles):
        outputs = [
            _outputs(model, rows.store, batch_size or BATCH_SIZE, embeddings)
            for model in models
        ]
        yield Part(rows, _as_predictions(models[0], rows, outputs))
        done += rows.num_rows
        if progress is not None:
            progress(done)


def _parts(model: Predictor, graphs: Any, smiles: str | None) -> Iterator[GraphRows]:
    """Yield the rows of a table in parts; all other data at once."""
    reading, is_path = model.reading, isinstance(graphs, str | os.PathLike)
    if is_path and format_suffix(Path(graphs)) in TABLE_SUFFIXES:
        featurizer = need_featurizer(model.info)
        column = smiles or reading.smiles
        yield from molecule_chunks(graphs, column, featurizer=featurizer)
        return
    rows = as_rows(graphs, reading)
    if is_path and not rows.num_rows:
        check_any(rows)
    if rows.molecules is not None:
        need_featurizer(model.info)
    yield replace(rows, store=replace(rows.store, y=None, node_targets=False))


def _outputs(
    model: Predictor, store: GraphStore, batch_size: int, embeddings: bool
) -> tuple[Tensor, Tensor | None]:
    """Return the outputs for all graphs, as probabilities, and the embeddings."""
    states: list[Tensor] = []
    hook = model.network.head.register_forward_pre_hook(
        lambda _, inputs: states.append(inputs[0].float().cpu())
    )
    store, found = with_node_features(store), []
    try:
        for first in range(0, len(store), batch_size):
            found += _split(model, store, first, min(first + batch_size, len(store)))
    finally:
        hook.remove()
    info = model.info
    width = info.num_outputs
    raw = torch.cat(found).double() if found else torch.zeros(0, width).double()
    if info.task == "classification":
        raw = raw.softmax(dim=1)
    elif info.task == "multilabel":
        raw = raw.sigmoid()
    if not embeddings:
        return raw, None
    return raw, torch.cat(states) if states else torch.zeros(0, 1)


def _split(model: Predictor, store: GraphStore, first: int, stop: int) -> list[Tensor]:
    """Predict for the graphs first..stop-1; halve the batch if memory is too small."""
    try:
        with torch.no_grad():
            graphs = store[torch.arange(first, stop)]
            return [model(graphs).cpu()]
    except (SizeError, torch.OutOfMemoryError):
        if stop - first < 2:
            raise
    middle = (first + stop) // 2
    return _split(model, store, first, middle) + _split(model, store, middle, stop)


def _as_predictions(
    model: Predictor,
    rows: GraphRows,
    outputs: Sequence[tuple[Tensor, Tensor | None]],
) -> Predictions:
    """Average the outputs of the networks, and put NaN into bad rows."""
    info = model.info
    values = torch.stack([output for output, _ in outputs])
    graph = None
    if info.node_task:
        place, length = torch.arange(values.size(1)), values.size(1)
        graph = rows.position.repeat_interleave(rows.store.num_nodes).numpy()
    else:
        place, length = rows.position, rows.num_rows
    mean = _placed(values.mean(dim=0), place, length)
    deviation = None
    if len(outputs) > 1:
        deviation = _placed(values.std(dim=0, correction=1), place, length)
    states = outputs[0][1]
    labels = None
    if info.task == "classification":
        names = class_names(info)
        known = dict(zip(place.tolist(), values.mean(dim=0).argmax(1), strict=True))
        labels = tuple(
            names[int(known[row])] if row in known else None for row in range(length)
        )
    return Predictions(
        mean,
        column_names(info),
        deviation,
        labels,
        rows.bad,
        graph,
        None if states is None else _placed(states, place, length),
    )


def _placed(values: Tensor, place: Tensor, length: int) -> np.ndarray:
    """Return a table with `length` rows: `values` at the rows `place`, else NaN."""
    table = torch.full((length, values.size(1)), torch.nan, dtype=values.dtype)
    table[place] = values
    return table.numpy()


def _check_alike(models: Sequence[Predictor]) -> None:
    """Raise `CheckpointError` unless all networks predict the same from the same."""
    names = ("task", "num_outputs", "targets", "classes", "featurizer", "node_task")
    for model in models[1:]:
        for name in names:
            first, other = (getattr(m.info, name) for m in (models[0], model))
            if first != other:
                raise CheckpointError(
                    f"the networks of an ensemble differ: {name} is {first} in the "
                    f"first and {other} in another; give networks of one task."
                )
