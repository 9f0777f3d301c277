"""Convert the targets of own data to tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.metric_names import Task
from gnnak.datasets.own.telling import (
    as_number,
    as_text,
    check_words,
    class_names,
    tell_task,
)
from gnnak.errors import GraphError, OptionError
from gnnak.graphs.readers.rows import BadRow

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


def encode_targets(
    columns: Sequence[Column],
    task: str | None = None,
    numbers: Sequence[int] | None = None,
) -> Targets:
    """Convert columns of texts or numbers to targets.

    Without `task`, one column of words, of true and false, or of the whole numbers
    0, 1, ... (up to 20, with at least two rows each on average) are classes, several
    columns of 0 and 1 are labels, and all other numbers are regression targets. Empty
    cells and texts such as `nan` are unknown. A row is bad if all its targets are
    unknown, or if a target is not a number although the task needs one.

    Args:
        columns: Name and values of each target.
        task: The task; None = told from the columns.
        numbers: The number of each row in the user's data, for error messages; None =
            1, 2, ...

    Raises:
        OptionError: If there is no target, or a task needs only one.
        GraphError: If there is one class only; or, without `task`, if a column of words
            has too many different ones to be classes, or if every target is the same
            in all rows.

    >>> encode_targets([("kind", ["b", "a", ""])])[:4:3]
    ('classification', ('a', 'b'))
    >>> encode_targets([("logp", ["1.5", "oops"])]).bad[0].reason
    "logp is 'oops', not a finite number"
    """
    if not columns:
        raise OptionError("there is no target to predict; name one with --target.")
    names = tuple(name for name, _ in columns)
    texts = [[as_text(value) for value in values] for _, values in columns]
    found = task or tell_task(texts)
    if task is None and found == "classification":
        check_words(names[0], texts[0], numbers)
    if found == "classification":
        if len(columns) > 1:
            raise OptionError(
                f"classification has one target, got {len(columns)}: "
                f"{', '.join(names[:5])}; name one with --target, or use --task "
                "multilabel for several columns of 0 and 1."
            )
        return _encode_classes(names[0], texts[0])
    targets = _encode_numbers(names, texts, found == "multilabel")
    if task is None:
        _check_numbers(targets, texts)
    return targets


def _encode_classes(name: str, column: Sequence[str | None]) -> Targets:
    """Number the classes in the order of their names; numbers sort as numbers."""
    names = class_names(column)
    known = [text for text in names if text is not None]
    found = set(known)
    numbers = {text: as_number(text) for text in found}
    whole = all(number is not None for number in numbers.values())
    classes = sorted(found, key=lambda text: (numbers[text] if whole else 0, text))
    if len(classes) == 1:
        _refuse_constant(name, known)
    place = {text: index for index, text in enumerate(classes)}
    y = [0 if text is None else place[text] for text in names]
    bad = [
        BadRow(row, f"{name} is empty")
        for row, text in enumerate(column, start=1)
        if text is None
    ]
    return Targets(
        "classification", torch.tensor(y), (name,), tuple(classes), tuple(bad)
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
            number = as_number(text)
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


def _check_numbers(targets: Targets, texts: Sequence[Sequence[str | None]]) -> None:
    """Refuse numbers or labels if every target is the same in all rows.

    Args:
        targets: The targets, in single precision.
        texts: The texts of each target.
    """
    known = [column[~column.isnan()] for column in targets.y.T]
    if not all(values.unique().numel() == 1 for values in known):
        return
    given = [as_number(text) for text in texts[0] if text is not None]
    first = [number for number in given if number is not None]
    if len(set(first)) == 1:
        _refuse_constant(targets.names[0], first)
    elif len(first) > 2:
        raise GraphError(
            f"the values of {targets.names[0]} are equal in single precision, in which "
            "networks are trained; subtract their mean, and use another unit."
        )


def _refuse_constant(name: str, values: Sequence[Any]) -> None:
    """Refuse a target that is the same in all rows, if there are enough to train."""
    if len(values) > 2:
        raise GraphError(
            f"{name} is {values[0]} in all {len(values)} rows, so there is nothing to "
            "learn; name another target."
        )
