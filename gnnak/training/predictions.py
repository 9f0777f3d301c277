"""`Predictions`: the predictions for many graphs, and the names of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gnnak.datasets.record import DatasetInfo
from gnnak.graphs.readers.rows import BadRow, GraphRows


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
