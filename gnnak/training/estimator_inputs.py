"""Check the graphs and targets that are given to the estimators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnnak.datasets.own.frames import as_array
from gnnak.datasets.own.objects import as_items
from gnnak.errors import OptionError


def listed_graphs(graphs: Sequence[Any]) -> list[Any]:
    """Return the graphs as a list; strings of an array become Python strings."""
    if isinstance(graphs, str):
        raise OptionError("graphs is one string; give a list of graphs or SMILES.")
    listed = as_items(graphs)
    return [str(one) if isinstance(one, np.str_) else one for one in listed]


def numbers_of(y: Any) -> np.ndarray:
    """Return regression targets as an array of float64."""
    try:
        targets = np.asarray(as_array(y), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"y cannot be read as numbers ({error}); give numbers, or use "
            "GNNAKClassifier for classes."
        ) from error
    if targets.ndim not in (1, 2):
        raise OptionError(
            f"y has shape {list(targets.shape)}; give one number, or one row of "
            "numbers, for every graph."
        )
    missing = np.isnan(targets)
    unknown = missing if targets.ndim == 1 else missing.all(axis=1)
    if unknown.any():
        raise OptionError(
            f"y has no number in row {unknown.argmax() + 1}; leave out graphs without "
            "a target."
        )
    return targets


def classes_of(y: Any) -> np.ndarray:
    """Return the class of each graph; missing classes and fractions are refused."""
    names = as_array(y)
    if names.ndim != 1:
        raise OptionError(
            f"y has shape {list(names.shape)}; give one class for every graph."
        )
    missing = [row for row, name in enumerate(names, 1) if name is None or name != name]
    if missing:
        raise OptionError(
            f"y has no class in row {missing[0]}; leave out graphs without a class."
        )
    if names.dtype.kind == "f" and (names != np.round(names)).any():
        raise OptionError(
            "y has numbers that are not whole; give classes, or use GNNAKRegressor."
        )
    return names
