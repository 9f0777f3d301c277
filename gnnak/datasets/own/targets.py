"""Convert the targets of own data to tensors, and tell the task from them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.metric_names import Task
from gnnak.errors import GraphError, OptionError
from gnnak.graphs.readers.rows import BadRow

MISSING = frozenset({"", "nan", "na", "n/a", "none", "null", "?"})
"""Texts, in lower case, that stand for an unknown target."""
TRUE_FALSE = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
MOST_CLASSES = 20
"""Whole numbers 0, 1, ... with more distinct values than this are no classes."""
MISSPELT = re.compile(r"[+-]?\d+(,\d+|\.\d+\s*[^\d.].*)")
"""Words such as `1,5` and `1.5 mg/L`: numbers with a decimal comma or a unit."""
LIMIT = 3.0e38
"""Targets are stored as float32, whose largest number is slightly greater."""


class Targets(NamedTuple):
    """The targets of graphs or nodes, as the training needs them."""

    task: Task
    """The task."""
    y: Tensor
    """Classes [rows], int64; or numbers or labels [rows, t], float32, NaN = unknown.
    For a bad row, the target has no meaning."""
    names: tuple[str, ...]
    """Names of the t targets."""
    classes: tuple[str, ...] = ()
    """Names of the classes; empty unless the task is classification."""
    bad: tuple[BadRow, ...] = ()
    """Rows whose targets cannot be used."""

    @property
    def num_outputs(self) -> int:
        """Number of outputs of the network: targets, classes or labels."""
        if self.task == "classification":
            return len(self.classes)
        return self.y.size(1)


Column = tuple[str, Sequence[Any]]
"""Name and values of a target: one text, number or None per row."""


def encode_targets(columns: Sequence[Column], task: str | None = None) -> Targets:
    """Convert columns of texts or numbers to targets.

    Without `task`, one column of words, of true and false, or of the whole numbers
    0, 1, ... (up to 20) are classes, several columns of 0 and 1 are labels, and all
    other numbers are regression targets. Empty cells and texts such as `nan` are
    unknown. A row is bad if all its targets are unknown, or if a target is not a number
    although the task needs one.

    Args:
        columns: Name and values of each target.
        task: The task; None = told from the columns.

    Raises:
        OptionError: If there is no target, or a task needs only one.
        GraphError: If a column of words has too many different ones to be classes.

    >>> encode_targets([("kind", ["b", "a", ""])])[:4:3]
    ('classification', ('a', 'b'))
    >>> encode_targets([("logp", ["1.5", "oops"])]).bad[0].reason
    "logp is 'oops', not a finite number"
    """
    if not columns:
        raise OptionError("there is no target to predict; name one with --target.")
    names = tuple(name for name, _ in columns)
    texts = [[_text(value) for value in values] for _, values in columns]
    found = task or tell_task(texts)
    if task is None and found == "classification":
        _check_words(names[0], texts[0])
    if found == "classification":
        if len(columns) > 1:
            raise OptionError(
                f"classification has one target, got {len(columns)}: "
                f"{', '.join(names[:5])}; name one with --target, or use --task "
                "multilabel for several columns of 0 and 1."
            )
        return _encode_classes(names[0], texts[0])
    return _encode_numbers(names, texts, found == "multilabel")


def tell_task(texts: Sequence[Sequence[str | None]]) -> Task:
    """Tell the task from columns of texts; None = unknown target.

    >>> tell_task([["0", "1", None], ["1", "1", "0"]])
    'multilabel'
    """
    values = [{text for text in column if text is not None} for column in texts]
    numbers = [{_number(text) for text in column} for column in values]
    if len(texts) > 1:
        binary = all(column <= {0.0, 1.0} for column in numbers)
        return "multilabel" if binary else "regression"
    (column,), (distinct,) = numbers, values
    words = [text for text in distinct if _number(text) is None]
    if distinct and (2 * len(words) > len(distinct) or distinct <= set(TRUE_FALSE)):
        return "classification"
    whole = column == {float(number) for number in range(len(column))}
    if 2 <= len(column) <= MOST_CLASSES and whole:
        return "classification"
    return "regression"


def _check_words(name: str, column: Sequence[str | None]) -> None:
    """Refuse words that are misspelt numbers, or of which there are too many."""
    known = [text for text in column if text is not None]
    distinct = set(known)
    many = len(distinct) > MOST_CLASSES and 2 * len(distinct) > len(known)
    if many or all(MISSPELT.fullmatch(text) for text in distinct):
        raise GraphError(
            f"{name} has {len(distinct)} different words in {len(known)} rows, such as "
            f"{known[0]!r}; write numbers without units and with a decimal point, or "
            "set --task classification (task='classification') if these are classes."
        )


def _encode_classes(name: str, column: Sequence[str | None]) -> Targets:
    """Number the classes in the order of their names; numbers sort as numbers."""
    found = {_plain(text) for text in column if text is not None}
    numbers = {text: _number(text) for text in found}
    whole = all(number is not None for number in numbers.values())
    classes = sorted(found, key=lambda text: (numbers[text] if whole else 0, text))
    if len(classes) < 2:
        raise GraphError(
            f"{name} has {len(classes)} classes; give targets with at least two."
        )
    place = {text: index for index, text in enumerate(classes)}
    y = [0 if text is None else place[_plain(text)] for text in column]
    bad = [
        BadRow(row, f"{name} is empty")
        for row, text in enumerate(column, start=1)
        if text is None
    ]
    found_classes = tuple(classes)
    return Targets(
        "classification", torch.tensor(y), (name,), found_classes, tuple(bad)
    )


def _encode_numbers(
    names: tuple[str, ...], texts: Sequence[Sequence[str | None]], labels: bool
) -> Targets:
    """Convert columns to float32, with NaN for unknown targets; collect bad rows."""
    y = np.full((len(texts[0]), len(texts)), np.nan)
    bad: dict[int, str] = {}
    for place, (name, column) in enumerate(zip(names, texts, strict=True)):
        for row, text in enumerate(column):
            if text is None:
                continue
            number = _number(text)
            wrong = number is None or not abs(number) < LIMIT
            if labels and number not in (0.0, 1.0):
                bad.setdefault(row, f"{name} is {text[:40]!r}, not 0 or 1")
            elif wrong:
                bad.setdefault(row, f"{name} is {text[:40]!r}, not a finite number")
            else:
                y[row, place] = number
    for row in np.flatnonzero(np.isnan(y).all(axis=1)).tolist():
        reason = f"{names[0]} is empty" if len(names) == 1 else "all targets are empty"
        bad.setdefault(row, reason)
    rows = tuple(BadRow(row + 1, bad[row]) for row in sorted(bad))
    task: Task = "multilabel" if labels else "regression"
    return Targets(task, torch.from_numpy(y).float(), names, (), rows)


def _text(value: Any) -> str | None:
    """Return a target as text; None if it is unknown."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    text = str(value).strip()
    return None if text.lower() in MISSING else text


def _number(text: str) -> float | None:
    """Return a text as a number; None if it is not one. true = yes = 1."""
    try:
        return float(text)
    except ValueError:
        return TRUE_FALSE.get(text.lower())


def _plain(text: str) -> str:
    """Return the name of a class: whole numbers without a decimal point."""
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else text
