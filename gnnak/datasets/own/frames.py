"""Columns and data frames of pandas as graphs and targets.

Frames are recognised by their attributes, so pandas need not be installed. Rows are
matched by their position; the index of a frame is ignored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnnak.datasets.own.molecules import SMILES_NAMES
from gnnak.errors import GraphError, kind_of


def is_frame(data: object) -> bool:
    """Return whether an object is a data frame, of pandas or of a similar library."""
    # The attributes of the type: those of a frame may be the names of its columns.
    return hasattr(type(data), "columns") and hasattr(type(data), "shape")


def is_series(data: object) -> bool:
    """Return whether an object is a column of a data frame: a pandas `Series`."""
    return hasattr(type(data), "iloc") and not is_frame(data)


def as_array(values: Any) -> np.ndarray:
    """Return a list, an array, a column or a data frame as an array.

    Missing values of pandas, such as `pandas.NA`, become None or NaN.

    Raises:
        ValueError: If the rows of a list have different lengths.
    """
    array = np.asarray(values)
    if array.dtype == object and hasattr(type(values), "iloc"):
        return np.asarray(values.to_numpy(dtype=object, na_value=None))
    return array


def target_names(y: Any) -> tuple[str, ...]:
    """Return the names of targets that are a column or a data frame.

    Returns:
        The names; empty if there are none, or if they are not distinct texts.
    """
    names: tuple[object, ...] = ()
    if is_frame(y):
        names = tuple(y.columns)
    elif is_series(y):
        names = (getattr(y, "name", None),)
    texts = tuple(name for name in names if isinstance(name, str) and name)
    return texts if len(set(texts)) == len(names) else ()


def refuse_frame(frame: Any) -> None:
    """Raise `GraphError` for a data frame in place of graphs; name its columns."""
    names = [str(name) for name in frame.columns]
    smiles = [name for name in names if name.lower() in SMILES_NAMES] or ["smiles"]
    others = [name for name in names if name not in smiles] or ["y"]
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    raise GraphError(
        f"the data are {kind_of(frame)} with the columns {shown or '(none)'}; give the "
        f"column of molecules as the graphs, such as frame[{smiles[0]!r}], and in "
        f"training the columns of targets as y, such as frame[{others[-1]!r}]."
    )
