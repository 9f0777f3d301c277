"""Read decimal commas, such as 1,5, in tables that are separated by semicolons."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gnnak.datasets.own.telling import AS_CLASSES, MISSING
from gnnak.errors import GraphError
from gnnak.graphs.readers.rows import GraphRows

EXPONENT = r"(?:[eE][+-]?\d+)?"
NUMBER = re.compile(
    r"[+-]?(?:"
    r"(?P<grouped>\d{1,3}(?:(?:\.\d{3})+,\d+|(?:,\d{2,3})+\.\d+|(?:\.\d{3}){2,}"
    r"|(?:,\d{3}){2,}|(?:[ '\u2019\u00a0\u202f]\d{3})+(?:[.,]\d+)?))"
    rf"|(?P<comma>\d*,\d+{EXPONENT})"
    rf"|(?P<point>(?:\d+\.\d*|\.\d+){EXPONENT})"
    rf"|(?P<whole>\d+{EXPONENT}))"
)
"""Numbers by notation. The names of the groups: `grouped` has thousands separators,
such as 1.234,5 and 1,234.5; `comma` has a decimal comma; `point` has a decimal point;
`whole` has neither."""
LIKE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
"""Numbers such as 1.234, whose point or comma may be a thousands separator."""


def with_points(rows: GraphRows, targets: Sequence[str], task: str | None) -> GraphRows:
    """Return the rows with decimal points in the columns of numbers.

    Args:
        rows: The rows; unchanged unless `rows.decimal_commas`.
        targets: The columns to predict; empty = not yet known, any column.
        task: The task; None = told from the targets.

    Raises:
        GraphError: As for `as_points`.
    """
    if not rows.decimal_commas:
        return rows
    read = columns_with_points(rows.columns, rows.source, targets, task)
    return replace(rows, columns=read)


def columns_with_points(
    columns: Mapping[str, Sequence[str]],
    source: str,
    targets: Sequence[str],
    task: str | None,
) -> dict[str, Sequence[str]]:
    """Return columns of a table with decimal points; arguments as for `with_points`."""
    names = [name for name in targets or columns if name in columns]
    read = {name: as_points(name, columns[name], source, task) for name in names}
    return {**columns, **read}


def as_points(
    name: str, texts: Sequence[str], source: str, task: str | None = None
) -> Sequence[str]:
    """Return a column with decimal points in place of decimal commas.

    A column in which most known values are no numbers is returned unchanged, and so is
    a column of classes (`task`) whose numbers have different notations.

    Args:
        name: The name of the column, for error messages.
        texts: The values, one per row.
        source: The name of the file, for error messages.
        task: The task; None = told from the targets.

    Raises:
        GraphError: If numbers have thousands separators, or if some have a decimal
            comma and others a decimal point.

    >>> as_points("logp", ["1,5", "-2", ",25", ""], "m.csv")
    ['1.5', '-2', '.25', '']
    """
    found = [NUMBER.fullmatch(text) for text in texts]
    kinds = [None if match is None else match.lastgroup for match in found]
    _warn_of_thousands(name, texts, kinds, source)
    if "comma" not in kinds and "grouped" not in kinds:
        return texts
    known = sum(text.lower() not in MISSING for text in texts)
    numbers = len(kinds) - kinds.count(None)
    if task in (None, "classification") and 2 * numbers <= known:
        return texts
    mixed = "comma" in kinds and "point" in kinds
    if task == "classification" and (mixed or "grouped" in kinds):
        return texts
    if "grouped" in kinds:
        row = kinds.index("grouped")
        raise GraphError(
            f"{source}: {name} is {texts[row]!r} in row {row + 1}, a number with a "
            f"thousands separator; write it without this separator, or {AS_CLASSES}."
        )
    if mixed:
        comma, point = kinds.index("comma"), kinds.index("point")
        raise GraphError(
            f"{source}: {name} is {texts[comma]!r} in row {comma + 1} and "
            f"{texts[point]!r} in row {point + 1}; write all numbers of a column with "
            f"a decimal comma, or all with a decimal point, or {AS_CLASSES}."
        )
    pairs = zip(texts, kinds, strict=True)
    return [text.replace(",", ".") if kind == "comma" else text for text, kind in pairs]


def _warn_of_thousands(
    name: str, texts: Sequence[str], kinds: Sequence[str | None], source: str
) -> None:
    """Warn if a column may have thousands separators, as in 1.234, 987 and 12.500.

    A spreadsheet writes these numbers if they are 1234, 987 and 12500. If they were
    fractions, some of them would have more or fewer than three decimals.
    """
    rows = [row for row, kind in enumerate(kinds) if kind in ("comma", "point")]
    if not rows or "whole" not in kinds:
        return
    if all(LIKE_THOUSANDS.fullmatch(texts[row]) for row in rows):
        text = texts[rows[0]]
        logging.getLogger("gnnak").warning(
            "%s: %s is %r in row %d, which is read as %s and not as %s; leave out "
            "thousands separators, if these are some.",
            *(source, name, text, rows[0] + 1),
            *(text.replace(",", "."), re.sub("[.,]", "", text)),
        )
