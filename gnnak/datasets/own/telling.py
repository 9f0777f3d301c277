"""Read target values as texts and numbers, and tell the task from them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from gnnak.datasets.metric_names import Task
from gnnak.errors import GraphError

MISSING = frozenset({"", "nan", "na", "n/a", "none", "null", "?"})
"""Texts, in lower case, that stand for an unknown target."""
TRUE_FALSE = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
MOST_CLASSES = 20
"""Whole numbers 0, 1, ... with more distinct values than this are no classes."""
DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
    r"|\d{1,2}/\d{1,2}/\d{2}"
    r"|\d{1,2}[- ](jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[- ]\d{2,4})"
    r"([T ].*)?",
    re.IGNORECASE,
)
"""Dates, such as `2024-01-31`, `1/31/24` and `31 Jan 2024`, with or without a time."""
MISSPELT = re.compile(
    r"[+-]?\d+(,\d+)+(\.\d+)?|[+-]?\d+\.\d+\s*[^\d.].*|[+-]?\d+(,\d+)?\s*%"
)
"""Numbers with commas, such as `1,5`, and with a unit, such as `1.5 mg/L` or `3 %`."""
AS_CLASSES = "set --task classification (task='classification') if these are classes"
"""How to make classes of values that are not read as classes."""


def tell_task(texts: Sequence[Sequence[str | None]]) -> Task:
    """Tell the task from columns of texts; None = unknown target.

    Whole numbers 0, 1, ... are classes only if there are two of them, or if they have
    at least two rows each on average.

    >>> tell_task([["0", "1", None], ["1", "1", "0"]])
    'multilabel'
    >>> tell_task([["0", "1", "2", "3"]])
    'regression'
    """
    known = [[text for text in column if text is not None] for column in texts]
    values = [set(column) for column in known]
    numbers = [{as_number(text) for text in column} for column in values]
    if len(texts) > 1:
        binary = all(column <= {0.0, 1.0} for column in numbers)
        return "multilabel" if binary else "regression"
    (column,), (distinct,) = numbers, values
    words = [text for text in distinct if as_number(text) is None]
    if distinct and (2 * len(words) > len(distinct) or distinct <= set(TRUE_FALSE)):
        return "classification"
    whole = column == {float(number) for number in range(len(column))}
    repeated = len(column) == 2 or 2 * len(column) <= len(known[0])
    if 2 <= len(column) <= MOST_CLASSES and whole and repeated:
        return "classification"
    return "regression"


def check_words(
    name: str, column: Sequence[str | None], numbers: Sequence[int] | None = None
) -> None:
    """Refuse words that are no classes, if the user has not asked for classes.

    Args:
        name: The name of the target.
        column: The words; None = unknown.
        numbers: The number of each row in the user's data; None = 1, 2, ...

    Raises:
        GraphError: If the words are misspelt numbers or dates, if there are too many
            different ones, if two differ in upper and lower case only, or if every row
            has another one.
    """
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
    """Refuse words of which most are dates, or numbers with units or commas."""
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
    """Return whether regression targets may be meant as classes; NaN = unknown.

    They may if they are small whole numbers, and some of them are equal.

    >>> import torch
    >>> are_like_classes(torch.tensor([1.0, 2.0, 2.0]))
    True
    """
    known = values[~values.isnan()]
    distinct = set(known.unique().tolist())
    repeated = 2 <= len(distinct) < known.numel()
    return repeated and distinct <= {float(n) for n in range(MOST_CLASSES + 1)}


def as_text(value: Any) -> str | None:
    """Return a target as text; None if it is unknown."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    text = str(value).strip()
    return None if text.lower() in MISSING else text


def as_number(text: str) -> float | None:
    """Return a text as a number; None if it is not one. true = yes = 1."""
    try:
        return float(text)
    except ValueError:
        return TRUE_FALSE.get(text.lower())


def class_names(column: Sequence[str | None]) -> list[str | None]:
    """Return the class of each row; None = unknown.

    Whole numbers lose their decimal point. Truth values in several spellings become
    lower case.

    >>> class_names(["1.0", "2", None]), class_names(["TRUE", "true", "False"])
    (['1', '2', None], ['true', 'true', 'false'])
    """
    names = [None if text is None else _without_point(text) for text in column]
    known = {name for name in names if name is not None}
    lower = {name.lower() for name in known}
    if lower <= set(TRUE_FALSE) and len(lower) < len(known):
        return [None if name is None else name.lower() for name in names]
    return names


def _without_point(text: str) -> str:
    """Return a whole number without its decimal point, and other texts unchanged."""
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else text
