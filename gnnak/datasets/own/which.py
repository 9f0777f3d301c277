"""Find the targets of the user's data: table columns, graph attributes or lists."""

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.own.molecules import find_smiles
from gnnak.datasets.own.objects import LEVELS, UNREAD, as_array, target_names
from gnnak.datasets.own.options import OwnData
from gnnak.datasets.own.splits import check_column
from gnnak.datasets.own.targets import (
    AS_CLASSES,
    MISSING,
    Column,
    Targets,
    as_number,
    as_text,
    class_names,
    encode_targets,
)
from gnnak.errors import GraphError, OptionError, counted
from gnnak.graphs.readers.rows import GraphRows
from gnnak.graphs.readers.table import read_table
from gnnak.typing import check_known, check_no_list

EXPONENT = r"(?:[eE][+-]?\d+)?"
NUMBER = re.compile(
    r"[+-]?(?:"
    r"(?P<grouped>\d{1,3}(?:(?:\.\d{3})+,\d+|(?:,\d{2,3})+\.\d+|(?:\.\d{3}){2,}"
    r"|(?:,\d{3}){2,}|(?:[ '\u2019\u00a0\u202f]\d{3})+(?:[.,]\d+)?))"
    rf"|(?P<comma>\d*,\d+{EXPONENT})"
    rf"|(?P<point>(?:\d+\.\d*|\.\d+){EXPONENT})"
    rf"|(?P<whole>\d+{EXPONENT}))"
)
"""Matches a number. The group that matches is the notation: `grouped` (1.234,5, 1,234.5
and so on), `comma` (1,5), `point` (1.5) or `whole` (15)."""
LIKE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
"""Matches numbers such as 1.234, whose point or comma may separate thousands."""


Columns = Mapping[str, Sequence[str]]


def with_points(
    columns: Columns, source: str, targets: Sequence[str], task: str | None
) -> Columns:
    """Replace decimal commas by points in the columns `targets`, by default in all."""
    names = [name for name in targets or columns if name in columns]
    read = {name: as_points(name, columns[name], source, task) for name in names}
    return {**columns, **read}


def as_points(
    name: str, texts: Sequence[str], source: str, task: str | None = None
) -> Sequence[str]:
    """Return a column with decimal points in place of decimal commas.

    Columns of words are unchanged. If a column has thousands separators, or decimal
    commas and decimal points, classes are unchanged; other columns raise `GraphError`.

    >>> as_points("logp", ["1,5", "-2", ",25", ""], "m.csv")
    ['1.5', '-2', '.25', '']
    """
    found = (NUMBER.fullmatch(text) for text in texts)
    kinds = [match and match.lastgroup for match in found]
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
        told = f"{source}: {name} is {texts[row]!r} in row {row + 1}, a number with a"
        raise GraphError(f"{told} thousands separator; leave it out, or {AS_CLASSES}.")
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
    """Warn if points or commas may separate thousands, as in 1.234, 987 and 12.500."""
    rows = [row for row, kind in enumerate(kinds) if kind in ("comma", "point")]
    like = all(LIKE_THOUSANDS.fullmatch(texts[row]) for row in rows)
    if rows and "whole" in kinds and like:
        text = texts[rows[0]]
        logging.getLogger("gnnak").warning(
            "%s: %s is %r in row %d, which is read as %s and not as %s; leave out "
            "thousands separators, if these are some.",
            *(source, name, text, rows[0] + 1),
            *(text.replace(",", "."), re.sub("[.,]", "", text)),
        )


def find_targets(own: OwnData, rows: GraphRows, y: Any) -> Targets:
    columns, numbers = find_columns(own, rows, y)
    refuse_features(rows, columns)
    if own.task in ("regression", "multilabel") and not own.skip_bad:
        _refuse_words(columns, own.task)
    return encode_targets(columns, own.task, numbers)


def _refuse_words(columns: Sequence[Column], task: str) -> None:
    for name, values in columns:
        known = [text for text in map(as_text, values) if text is not None]
        if known and all(as_number(text) is None for text in known):
            told = f"{name} has text such as {known[0][:40]!r} and no numbers, which"
            raise GraphError(
                f"{told} {task} needs; name another target, or another task."
            )


def refuse_features(rows: GraphRows, columns: Sequence[Column]) -> None:
    sizes = rows.store.num_nodes.tolist()
    for name, values in columns:
        if name not in rows.features.nodes or name not in rows.node_columns:
            continue
        if not rows.store.node_targets:
            pairs = zip(values, sizes, strict=True)
            values = [value for value, size in pairs for _ in range(size)]
        texts = [list(map(as_text, v)) for v in (values, rows.node_columns[name])]
        if class_names(texts[0]) == class_names(texts[1]):
            told = "name only other attributes with --node-attr (node_attr)"
            raise OptionError(f"{name} is the target and also a node feature; {told}.")


def find_columns(
    own: OwnData, rows: GraphRows, y: Any
) -> tuple[list[Column], list[int] | None]:
    """Return target columns of readable graphs, and row numbers for error messages."""
    numbers = (rows.position + 1).tolist()
    if y is not None:
        return _columns_of(y, rows, own.targets), numbers
    if own.labels is not None:
        return _from_table(own, rows), numbers
    if own.targets and set(own.targets) <= set(rows.node_columns) - set(rows.columns):
        return [(name, rows.node_columns[name]) for name in own.targets], None
    edge_names = rows.features.edges + rows.features.unused_edges
    for name in own.targets:
        if name in edge_names and name not in rows.columns:
            raise GraphError(f"{name} is an attribute of edges, but {LEVELS}")
    named = own.targets and (rows.columns or rows.node_columns)
    if named or (rows.columns and rows.molecules is not None):
        names = own.targets or _number_columns(own, rows)
        _check_columns(own, rows, names)
        return [(name, rows.column(name)) for name in names], numbers
    return _from_graphs(own, rows), None


def _from_graphs(own: OwnData, rows: GraphRows) -> list[Column]:
    use = rows.features
    for name in own.targets:
        if name in (*use.nodes, *use.unused_nodes, *use.unused_graphs):
            if name == "edge_label":
                raise GraphError(UNREAD[name])
            told = f"{name} is a field of the graphs, but their targets are in y"
            raise OptionError(f"{told}; set y to it, or name the columns otherwise.")
    if rows.unread_y:
        raise GraphError(rows.unread_y)
    if rows.store.y is None:
        what = "; name a column or attribute with --target, or give a table"
        if own.targets:
            what = f", and so no {', '.join(own.targets)}; give the table that has it"
        told = f"{rows.source} has no targets{what} with --targets (labels=...), or y"
        raise OptionError(f"{told}; see docs/formats.md#targets.")
    table = rows.store.y.reshape(rows.store.y.size(0), -1).cpu().numpy()
    if table.shape[1] == 1 and len(own.targets) == 1:
        check_known("target", own.targets[0], ("y", *use.unused_graphs))
    return _named(table, own.targets, others=use.unused_graphs)


def _check_columns(own: OwnData, rows: GraphRows, names: Sequence[str]) -> None:
    none = set(names).isdisjoint(rows.columns)
    known = [*rows.columns, *(rows.node_columns if none else ())]
    for name in names:
        check_no_list("target", name, known)
        check_column(name, known, rows.source)
    if rows.molecules is None:
        return
    smiles = find_smiles(rows.source, own.smiles, list(rows.columns))
    if smiles in names:
        told = f"the target {smiles} is the column of SMILES strings, the input"
        raise OptionError(f"{told}; name another target, or use --smiles (smiles=...).")


def with_node_targets(own: OwnData, rows: GraphRows, y: Any) -> GraphRows:
    """Drop the graphs' own `y` if other targets replace it, and set `node_targets`."""
    store, names = rows.store, set(own.targets)
    if y is not None or own.labels is not None:
        store = replace(store, y=None, node_targets=False)
    elif names and names <= set(rows.node_columns) and not names <= set(rows.columns):
        zeros = torch.zeros(int(store.node_ptr[-1]))
        store = replace(store, y=zeros, node_targets=True)
    return replace(rows, store=store)


def _from_table(own: OwnData, rows: GraphRows) -> list[Column]:
    assert own.labels is not None
    columns, decimal_commas = read_table(own.labels)
    if decimal_commas:
        columns = with_points(columns, own.labels, own.targets, own.task)
    length = len(next(iter(columns.values())))
    order = _order_by_name(columns, rows.names, own.labels)
    if not order and length != rows.num_rows:
        graphs = counted(rows.num_rows, "graph")
        raise GraphError(
            f"{own.labels} has {counted(length, 'row')}, but {rows.source} has "
            f"{graphs}; give a header line, and one row for every graph, in order."
        )
    names = own.targets or tuple(columns)
    if not own.targets and len(names) > 1:
        known = (name for name in names if name.lower() not in KEYS)
        names = tuple(name for name in known if _is_numeric(columns[name]))
    for name in names:
        check_no_list("target", name, columns)
        check_column(name, list(columns), own.labels)
    places = [order[row] if order else row for row in rows.position.tolist()]
    return [(name, [columns[name][row] for row in places]) for name in names]


KEYS = ("id", "index", "graph", "name")
"""Headers of the column that names the graphs in a table of labels, in lower case."""


def _order_by_name(
    columns: Columns, names: Sequence[str], labels: str
) -> list[int] | None:
    """Return each graph's row in a table of labels; None if it names no graphs."""
    for key, cells in columns.items():
        row = {str(cell): number for number, cell in enumerate(cells)}
        if key.lower() not in KEYS or row.keys().isdisjoint(names):
            continue
        counts = Counter(map(str, cells))
        for name in names:
            if counts[name] != 1:
                told = f"{labels} has {counted(counts[name], 'row')} for the graph"
                raise GraphError(f"{told} {name!r} in the column {key}; give one.")
        return [row[name] for name in names]
    return None


def _number_columns(own: OwnData, rows: GraphRows) -> tuple[str, ...]:
    smiles = find_smiles(rows.source, own.smiles, list(rows.columns))
    others = [n for n in rows.columns if n and n not in (smiles, own.split_column)]
    if len(others) == 1:
        return tuple(others)
    names = tuple(name for name in others if _is_numeric(rows.columns[name]))
    if not others:
        told = f"{rows.source} has no named column besides {smiles}"
        raise OptionError(f"{told}; add a column with the target, and name it.")
    if len(names) != 1:
        told = f"{rows.source} has {len(others)} columns besides {smiles}; name the"
        names_of = ", ".join(others[:20])
        raise OptionError(f"{told} ones to predict with --target, of: {names_of}.")
    return names


def _is_numeric(values: Sequence[Any]) -> bool:
    texts = (str(value).lower() for value in values)
    known = list(islice((text for text in texts if text not in MISSING), 1000))
    return 2 * sum(as_number(text) is not None for text in known) > len(known)


def _columns_of(y: Any, rows: GraphRows, names: tuple[str, ...]) -> list[Column]:
    try:
        table = as_array(y.detach().cpu() if isinstance(y, Tensor) else y)
    except ValueError as error:
        sized = (getattr(row, "ndim", 1) and hasattr(row, "__len__") for row in y)
        lengths = [len(row) if n else 1 for row, n in zip(y, sized, strict=True)]
        _refuse_parts(lengths, rows)
        told = "y has rows of different lengths"
        raise GraphError(f"{told}; give every graph equally many targets.") from error
    if table.ndim not in (1, 2) or len(table) != rows.num_rows:
        _refuse_parts(list(table.shape[:1]), rows)
        wanted = f"{counted(rows.num_rows, 'row')}, one for every graph"
        raise GraphError(f"y has shape {list(table.shape)}; give {wanted}.")
    table = table.reshape(len(table), -1)[rows.position.numpy()]
    return _named(table, names, target_names(y))


def _refuse_parts(lengths: list[int], rows: GraphRows) -> None:
    nodes, edges = rows.store.num_nodes, rows.store.num_edges
    fits = {
        owner: None
        for owner, sizes in (("node", nodes), ("edge", edges), ("edge", edges // 2))
        if any(lengths) and lengths in (sizes.tolist(), [int(sizes.sum())])
    }
    if "edge" in fits:
        raise GraphError(UNREAD[" or ".join(fits)])
    if fits:
        raise GraphError(
            "y has one row for every node; put it into the graphs, as y of PyG graphs "
            "or as an attribute of networkx nodes; see docs/formats.md#targets."
        )


def _named(
    table: np.ndarray,
    wanted: tuple[str, ...],
    known: tuple[str, ...] = (),
    others: tuple[str, ...] = (),
) -> list[Column]:
    """Return the columns `wanted`, or all; `wanted` may also be new names for all."""
    width = table.shape[1]
    known = known or default_names(width)
    if not set(wanted) <= set(known):
        if len(wanted) != width:
            told = f"{counted(width, 'target')}, but {counted(len(wanted), 'name')}"
            some = f"name every target, or give some of: {', '.join(known[:10])}"
            raise OptionError(f"there are {told}; {some}.")
        names, partly = (*known, *others), not set(wanted).isdisjoint(known)
        for name in wanted:
            if name not in known and (partly or get_close_matches(name, names)):
                more = "; new names for y must be less similar to these"
                check_known("target", name, names, more)
        known = wanted
    columns = dict(zip(known, table.T.tolist(), strict=True))
    return [(name, columns[name]) for name in wanted or known]


def default_names(count: int) -> tuple[str, ...]:
    return ("y",) if count == 1 else tuple(f"y{i}" for i in range(count))
