"""Convert the values of targets to tensors, and derive the task from the values."""

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.record import Task
from gnnak.errors import GraphError, OptionError
from gnnak.graphs.readers.rows import BadRow

MISSING = frozenset({"", "nan", "na", "n/a", "none", "null", "?"})
"""Texts, in lower case, that stand for an unknown target."""
TRUE_FALSE = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
MOST_CLASSES = 20
"""Largest number of distinct whole numbers 0, 1, ... that are taken as classes."""
DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
    r"|\d{1,2}/\d{1,2}/\d{2}"
    r"|\d{1,2}[- ](jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[- ]\d{2,4})"
    r"([T ].*)?",
    re.IGNORECASE,
)
"""Matches dates such as `2024-01-31`, `1/31/24` and `31 Jan 2024`, also with a time."""
MISSPELT = re.compile(
    r"[+-]?\d+(,\d+)+(\.\d+)?|[+-]?\d+\.\d+\s*[^\d.].*|[+-]?\d+(,\d+)?\s*%"
)
"""Matches numbers with commas (`1,5`) or with a unit (`1.5 mg/L`, `3 %`)."""
AS_CLASSES = "set --task classification (task='classification') if these are classes"


def tell_task(texts: Sequence[Sequence[str | None]]) -> Task:
    """Derive the task from columns of targets, where None is an unknown value."""
    known = [[text for text in column if text is not None] for column in texts]
    values = [set(column) for column in known]
    numbers = [{as_number(text) for text in column} for column in values]
    if len(texts) > 1 and all(map(_words, texts)):
        return "classification"  # of which `encode_targets` allows one column only
    if len(texts) > 1:
        binary = all(column <= {0.0, 1.0} for column in numbers)
        return "multilabel" if binary else "regression"
    (column,), (distinct,) = numbers, values
    if distinct and (_words(texts[0]) or distinct <= set(TRUE_FALSE)):
        return "classification"
    whole = column == {float(number) for number in range(len(column))}
    repeated = len(column) == 2 or 2 * len(column) <= len(known[0])
    if 2 <= len(column) <= MOST_CLASSES and whole and repeated:
        return "classification"
    return "regression"


def check_words(
    name: str, column: Sequence[str | None], numbers: Sequence[int] | None = None
) -> None:
    """Raise `GraphError` if the words in a target column do not look like classes."""
    known = [text for text in column if text is not None]
    distinct = set(known)
    _check_spelling(name, column, numbers or range(1, len(column) + 1))
    if len(distinct) > MOST_CLASSES and 2 * len(distinct) > len(known):
        raise GraphError(
            f"{name} has {len(distinct)} different words in {len(known)} rows, such as "
            f"{known[0]!r}; write numbers without units and with a decimal point, or "
            f"{AS_CLASSES}."
        )
    spelt: dict[str, str] = {}
    for text in sorted(distinct):
        same = spelt.setdefault(text.lower(), text)
        if same != text and text.lower() not in TRUE_FALSE:
            raise GraphError(
                f"{name} has {same!r} and {text!r}, which differ in upper and lower "
                "case only; write them alike, or set --task classification "
                "(task='classification') if these are different classes."
            )
    if len(set(class_names(known))) == len(known) > 2:
        raise GraphError(
            f"{name} has a different value in each of the {len(known)} rows; name a "
            "target whose classes have several rows each, or set --task "
            "classification (task='classification')."
        )


def _check_spelling(
    name: str, column: Sequence[str | None], numbers: Sequence[int]
) -> None:
    distinct = {text for text in column if text is not None}
    dates = {text for text in distinct if DATE.fullmatch(text)}
    wrong = dates | {text for text in distinct if MISSPELT.fullmatch(text)}
    if 2 * len(wrong) <= len(distinct):
        return
    rows = zip(numbers, column, strict=True)
    number, text = next((number, text) for number, text in rows if text in wrong)
    what = "not a number; write numbers without units, with a decimal point"
    if text in dates:
        what = "a date; write dates as numbers, for example as a number of days"
    raise GraphError(f"{name} is {text!r} in row {number}, {what}, or {AS_CLASSES}.")


def are_like_classes(values: Tensor) -> bool:
    """Return whether regression targets are small whole numbers, some of them equal."""
    known = values[~values.isnan()]
    distinct = set(known.unique().tolist())
    repeated = 2 <= len(distinct) < known.numel()
    known_as_classes = set(range(MOST_CLASSES + 1)), {-1, 0, 1}
    return repeated and any(distinct <= numbers for numbers in known_as_classes)


def as_text(value: Any) -> str | None:
    """Convert a target to text, or to None if it is unknown."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    text = str(value).strip()
    return None if text.lower() in MISSING else text


def as_number(text: str) -> float | None:
    """Return the number in a text (true, yes are 1; false, no are 0), or None."""
    try:
        return float(text)
    except ValueError:
        return TRUE_FALSE.get(text.lower())


def class_names(column: Sequence[str | None]) -> list[str | None]:
    """Write equal classes alike: 1.0 as 1, and `TRUE` as `true` if both occur."""
    names = [None if text is None else _without_point(text) for text in column]
    known = {name for name in names if name is not None}
    lower = {name.lower() for name in known}
    if lower <= set(TRUE_FALSE) and len(lower) < len(known):
        return [None if name is None else name.lower() for name in names]
    return names


def _without_point(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else text


LIMIT = 3.0e38
"""Bound on the absolute value of targets, slightly below the largest float32."""


class Targets(NamedTuple):
    """The targets of graphs or nodes, encoded for training."""

    task: Task
    y: Tensor
    """For classification, the class number in each row, [rows], int64. Otherwise t
    targets, [rows, t], float32, with NaN for unknown values. Rows in `bad` have no
    meaning."""
    names: tuple[str, ...]
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
    classes: Sequence[str] = (),
) -> Targets:
    """Convert columns to targets; `numbers` are the rows' numbers in error messages."""
    if not columns:
        raise OptionError("there is no target to predict; name one with --target.")
    names = tuple(name for name, _ in columns)
    texts = [[as_text(value) for value in values] for _, values in columns]
    found = task or tell_task(texts)
    if task is None and found == "classification":
        check_words(names[0], texts[0], numbers)
    elif task is None:
        _check_kinds(names, texts)
    if found == "classification":
        if len(columns) > 1:
            raise OptionError(
                f"classification has one target, got {len(columns)}: "
                f"{', '.join(names[:5])}; name one with --target, or use --task "
                "multilabel for several columns of 0 and 1."
            )
        return _encode_classes(names[0], texts[0], classes)
    targets = _encode_numbers(names, texts, found == "multilabel")
    if task is None:
        _check_numbers(targets, texts)
    return targets


def _check_kinds(names: Sequence[str], texts: Sequence[Sequence[str | None]]) -> None:
    columns = dict(zip(names, texts, strict=True))
    others = [name for name in names if not _words(columns[name])]
    for name in names:
        if others and (words := _words(columns[name])):
            raise OptionError(
                f"{name} has text such as {words[0][:40]!r}, but {others[0]} has "
                "numbers; targets of one run must be of one kind, all numbers or all "
                f"0 and 1: leave out {name}, or train another run with {name} as the "
                "only target."
            )


def _words(column: Sequence[str | None]) -> list[str]:
    """Return the distinct words; [] if they are at most half of the distinct values."""
    distinct = {text for text in column if text is not None}
    words = sorted(text for text in distinct if as_number(text) is None)
    return words if 2 * len(words) > len(distinct) else []


def _encode_classes(
    name: str, column: Sequence[str | None], classes: Sequence[str]
) -> Targets:
    """Encode a class by its position in `classes`; if empty, in the sorted classes."""
    names = class_names(column)
    if not classes:
        known = [text for text in names if text is not None]
        found = set(known)
        numbers = {text: as_number(text) for text in found}
        whole = all(number is not None for number in numbers.values())
        classes = sorted(found, key=lambda text: (numbers[text] if whole else 0, text))
        if len(classes) == 1:
            _refuse_constant(name, known)
    place = {text: index for index, text in enumerate(classes)}
    y = torch.tensor([0 if text is None else place.get(text, 0) for text in names])
    listed = ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
    bad = []
    for row, text in enumerate(names, start=1):
        if text is None:
            bad.append(BadRow(row, f"{name} is empty"))
        elif text not in place:
            told = f"{name} is {text[:40]!r}, but the classes are {listed}"
            bad.append(BadRow(row, told))
    return Targets("classification", y, (name,), tuple(classes), tuple(bad))


def _encode_numbers(
    names: tuple[str, ...], texts: Sequence[Sequence[str | None]], labels: bool
) -> Targets:
    """Convert columns to float32, None to NaN; if `labels`, only 0 and 1 are valid."""
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
    known = [column[~column.isnan()] for column in targets.y.T]
    if not all(values.unique().numel() == 1 for values in known):
        return
    given = [as_number(text) for text in texts[0] if text is not None]
    first = [number for number in given if number is not None]
    if len(set(first)) == 1:
        _refuse_constant(targets.names[0], first)
    elif len(first) > 2:
        told = f"the values of {targets.names[0]} are equal in single precision"
        raise GraphError(f"{told}; subtract their mean, and use another unit.")


def _refuse_constant(name: str, values: Sequence[Any]) -> None:
    if len(values) > 2:
        told = f"{name} is {values[0]} in all {len(values)} rows"
        raise GraphError(f"{told}, so there is nothing to learn; name another target.")
