"""Read target values as texts and numbers, and tell the task from them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from gnnak.datasets.metric_names import Task
from gnnak.errors import GraphError

MISSING = frozenset({"", "nan", "na", "n/a", "none", "null", "?"})
"""Texts, in lower case, that stand for an unknown target."""
TRUE_FALSE = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
MOST_CLASSES = 20
"""Whole numbers 0, 1, ... with more distinct values than this are no classes."""
MISSPELT = re.compile(
    r"[+-]?\d+(,\d+)+(\.\d+)?"
    r"|[+-]?\d+\.\d+\s*[^\d.].*"
    r"|[+-]?\d+\s*%"
    r"|(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})([T ].*)?"
)
"""Numbers with commas, such as `1,5`, with a unit, such as `1.5 mg/L` or `3 %`; and
dates, such as `2024-01-31`."""


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


def check_words(name: str, column: Sequence[str | None]) -> None:
    """Refuse words that are no classes, if the user has not asked for classes.

    Raises:
        GraphError: If the words are misspelt numbers or dates, if there are too many
            different ones, if two differ in upper and lower case only, or if every row
            has another one.
    """
    known = [text for text in column if text is not None]
    distinct = set(known)
    many = len(distinct) > MOST_CLASSES and 2 * len(distinct) > len(known)
    misspelt = sum(MISSPELT.fullmatch(text) is not None for text in distinct)
    if many or 2 * misspelt > len(distinct):
        raise GraphError(
            f"{name} has {len(distinct)} different words in {len(known)} rows, such as "
            f"{known[0]!r}; write numbers without units and with a decimal point, or "
            "set --task classification (task='classification') if these are classes."
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
            f"{name} has another value in each of the {len(known)} rows; name a target "
            "whose classes have several rows each, or set --task classification "
            "(task='classification')."
        )


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
