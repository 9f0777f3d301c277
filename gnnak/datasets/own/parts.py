"""Choose the split or the folds of own data, as the options say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from gnnak.datasets.own.options import OwnData
from gnnak.datasets.own.splits import (
    check_column,
    check_split,
    column_split,
    random_folds,
    random_split,
    scaffold_folds,
    scaffold_split,
)
from gnnak.errors import FileFormatError, OptionError, counted
from gnnak.graphs.readers.rows import GraphRows

Parts = tuple[Tensor | None, Tensor | None]
"""A split [g] and folds [k, g]; one of both is None."""


def choose_split(
    own: OwnData, rows: GraphRows, given: Any, classes: Tensor | None, seed: int
) -> Parts:
    """Split own data into training, validation and test graphs, or into folds.

    Args:
        own: The options; `folds`, `split`.
        rows: The graphs.
        given: The part of each row or graph if it is known; None = not known.
        classes: The class of each graph, [g], so that every part gets its share of
            each class; None = not a classification of graphs.
        seed: Seed of random splits.

    Raises:
        OptionError: If the split does not fit the data.
        FileFormatError: If there are fewer than three graphs.
    """
    if len(rows) < 3:
        raise FileFormatError(
            f"{rows.source} has {counted(len(rows), 'usable graph')}; give at least "
            "three, for training, validation and test."
        )
    if given is not None:
        return _of_rows(given, rows), None
    if own.split == "scaffold" and rows.molecules is None:
        raise OptionError("split 'scaffold' needs molecules; use another split.")
    if own.folds is not None:
        return None, _folds(own, rows, own.folds, classes, seed)
    if own.split is None and rows.split is not None:
        return rows.split, None
    if own.split is None and rows.folds is not None:
        return None, rows.folds
    if own.split == "scaffold":
        return scaffold_split(rows.molecules or ()), None
    if own.split_column is not None:
        name = own.split_column
        check_column(name, list(rows.columns), rows.source)
        texts = [str(value) for value in rows.column(name)]
        return column_split(f"column {name}", texts), None
    return random_split(len(rows), seed, classes), None


def _folds(
    own: OwnData, rows: GraphRows, count: int, classes: Tensor | None, seed: int
) -> Tensor:
    """Assign the graphs to cross-validation folds, [k, g]."""
    if count < 3:
        raise OptionError(
            f"folds is {count}; give at least 3: one fold is for test, the next for "
            "validation, the others for training."
        )
    if len(rows) < count:
        raise OptionError(
            f"folds is {count}, but there are {len(rows)} graphs; give at most one "
            "fold per graph."
        )
    if own.split == "scaffold":
        return scaffold_folds(rows.molecules or (), count, seed)
    if own.split not in (None, "random"):
        raise OptionError(
            f"folds cannot be combined with split {own.split!r}; leave out one of both."
        )
    return random_folds(classes, len(rows), count, seed)


def _of_rows(given: Any, rows: GraphRows) -> Tensor:
    """Return the part of each graph, for a split of the graphs or of all rows."""
    if isinstance(given, Iterable) and not isinstance(given, Tensor):
        given = list(given)
        if given and all(isinstance(part, str) for part in given):
            given = column_split("split", given)
    length = len(given) if hasattr(given, "__len__") else -1
    if length == rows.num_rows != len(rows):
        return check_split(given, rows.num_rows)[rows.position]
    return check_split(given, len(rows))
