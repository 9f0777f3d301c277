"""Read tables (CSV and TSV files with a header, Parquet files) and edge lists."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx

from gnnak.errors import FileFormatError, counted, reason_of
from gnnak.graphs.readers.files import (
    FilePath,
    format_suffix,
    open_bytes,
    read_text,
    share_read,
)
from gnnak.optional import import_optional

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")
DELIMITERS = ",;\t"
"""Characters that may separate cells. The comma is assumed if a header has none."""
LONGEST_HEADER = 1_000_000
"""The separator is searched in at most this many characters of the header."""
MAX_COLUMNS = 10_000


class TableRow(NamedTuple):
    number: int
    """Number of the row, from 1; the header is not counted."""
    cells: Sequence[Any]
    """One value per column: stripped texts, or Parquet's values. If `problem` is set,
    missing cells are empty and surplus cells are left out."""
    problem: str | None = None
    """Why the row is malformed; None if it is not."""


class OpenTable(NamedTuple):
    """A table whose header has been read."""

    names: tuple[str, ...]
    rows: Iterator[TableRow]
    """Reads the rows of the open file one by one."""
    share: Callable[[int], float]
    """Returns which share of the file is read after a number of rows."""
    decimal_commas: bool = False
    """Whether semicolons separate cells, so that numbers may have decimal commas."""
    schema: Any = None
    """The pyarrow schema of a Parquet file; None for text files."""


class Table(NamedTuple):
    columns: Mapping[str, Sequence[Any]]
    decimal_commas: bool


@contextmanager
def open_table(path: FilePath) -> Iterator[OpenTable]:
    """Context manager: open a CSV, TSV or Parquet file and read its header."""
    where = Path(path)
    with open_bytes(path) as raw:
        if format_suffix(where) == ".parquet":
            yield _open_parquet(where, raw)
            return
        text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        try:
            delimiter = _delimiter(where, text)
            lines = csv.reader(text, delimiter=delimiter, strict=True)
            header = [name.strip() for name in next(lines, [])]
        except FileFormatError:
            raise
        except (csv.Error, UnicodeDecodeError, ValueError) as error:
            raise FileFormatError(_not_a_table(where, error)) from error
        _check_header(where, header)
        rows = _rows(where, lines, len(header))
        commas = delimiter == ";"
        yield OpenTable(tuple(header), rows, lambda _: share_read(raw), commas)


def read_table(path: FilePath) -> Table:
    with open_table(path) as table:
        columns: dict[str, list[Any]] = {name: [] for name in table.names}
        for row in table.rows:
            if row.problem:
                raise FileFormatError(f"{path}, row {row.number}: {row.problem}.")
            for column, cell in zip(columns.values(), row.cells, strict=True):
                column.append(cell)
    return Table(columns, table.decimal_commas)


def _rows(path: Path, lines: Iterator[list[str]], width: int) -> Iterator[TableRow]:
    """Yield the rows of a table that has `width` columns; skip blank lines."""
    number = 0
    while True:
        try:
            cells = next(lines, None)
        except (csv.Error, UnicodeDecodeError) as error:
            raise FileFormatError(_not_a_table(path, error, number + 1)) from error
        if cells is None:
            return
        blank = not any(cell.strip() for cell in cells)
        if blank and (len(cells) < width or width == 1):
            continue
        number += 1
        cells = [cell.strip() for cell in cells]
        if len(cells) == width:
            yield TableRow(number, cells)
            continue
        problem = f"it has {counted(len(cells), 'cell')}, but the header has {width}"
        yield TableRow(number, (cells + [""] * width)[:width], problem)


def _delimiter(path: Path, text: io.TextIOWrapper) -> str:
    header = text.readline(LONGEST_HEADER)
    if "\0" in header:
        raise ValueError("it has zero bytes")
    told = re.fullmatch(r"sep=([,;\t])\s*", header, re.IGNORECASE)
    if told is not None:
        return told[1]
    text.seek(0)
    if format_suffix(path) == ".tsv" and "\t" in header:
        return "\t"
    unquoted = re.sub(r'"[^"]*"', "", header)
    found = [each for each in DELIMITERS if each in unquoted]
    if len(found) > 1:
        found = [each for each in found if _fits(text, each)] or found
    return max(found or DELIMITERS, key=unquoted.count)


def _fits(text: io.TextIOWrapper, delimiter: str) -> bool:
    """Return whether header and first row have equally many cells, at least two."""
    lines = iter(lambda: text.readline(LONGEST_HEADER), "")
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = next(rows)
        first = next((row for row in rows if any(map(str.strip, row))), [])
    except (csv.Error, UnicodeDecodeError):
        return False
    finally:
        text.seek(0)
    return len(header) == len(first) > 1


def _check_header(path: Path, header: list[str]) -> None:
    name, times = Counter(header).most_common(1)[0] if header else ("", 0)
    told = None
    if len(header) > MAX_COLUMNS:
        told = f"has {len(header)} columns; give at most {MAX_COLUMNS}"
    elif not any(header):
        told = "is empty; give a table with a header; see docs/formats.md#tables"
    elif times > 1 and name:
        told = f"has {times} columns named {name!r}; rename all but one of them"
    if told is not None:
        raise FileFormatError(f"{path} {told}.")


def _not_a_table(path: Path, error: Exception, row: int | None = None) -> str:
    where = "" if row is None else f", row {row}"
    reason = "it is not UTF-8 text" if isinstance(error, UnicodeError) else str(error)
    if reason == "unexpected end of data":
        reason = "a quote is not closed"
    return (
        f"{path}{where}: not a CSV table ({reason}); save it as CSV in UTF-8; see "
        "docs/formats.md#tables."
    )


def import_pyarrow(name: str = "pyarrow") -> Any:
    return import_optional(name, "reading and writing Parquet files needs", "pyarrow")


PARQUET_ROWS = 4096
"""Number of rows of a Parquet file that are in memory at a time."""
PARQUET_BUFFER = 1 << 20
"""Number of bytes of a column that are read at a time."""


def _open_parquet(path: Path, raw: Any) -> OpenTable:
    parquet = import_pyarrow("pyarrow.parquet")
    with checked_parquet(path):
        file = parquet.ParquetFile(raw, buffer_size=PARQUET_BUFFER, pre_buffer=False)
    schema, length = file.schema_arrow.remove_metadata(), file.metadata.num_rows
    _check_header(path, schema.names)
    rows = _parquet_rows(path, file)
    return OpenTable(tuple(schema.names), rows, lambda n: n / length, schema=schema)


def _parquet_rows(path: Path, file: Any) -> Iterator[TableRow]:
    with checked_parquet(path):
        batches = file.iter_batches(PARQUET_ROWS, use_threads=False)
        rows = (zip(*(c.to_pylist() for c in b.columns), strict=True) for b in batches)
        for number, cells in enumerate(chain.from_iterable(rows), start=1):
            yield TableRow(number, cells)


@contextmanager
def checked_parquet(path: FilePath) -> Iterator[None]:
    """Context manager: raise `FileFormatError` if pyarrow cannot read the file."""
    errors = (import_pyarrow().ArrowException, OSError, ValueError)
    try:
        yield
    except errors as error:
        told = f"{path} cannot be read as Parquet ({reason_of(error)}); write it again"
        raise FileFormatError(f"{told}; see docs/formats.md#tables.") from error


LARGEST = 2 << 30
"""Largest size of an edge list, in bytes."""
COMMENTS = ("#", "%")
SEPARATOR = re.compile(r"[\s,;]+")
HEADER = {"source", "target", "src", "dst", "from", "to", "node1", "node2"}
WEIGHT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")


def read_edge_lists(path: FilePath) -> dict[str, nx.Graph]:
    """Read the undirected graphs of an edge list, by name; a lone graph is named ""."""
    text = read_text(path, "docs/formats.md#edge-lists", LARGEST)
    graphs: dict[str, nx.Graph] = {}
    width = 0
    for number, line in enumerate(text.splitlines(), start=1):
        words = [word for word in SEPARATOR.split(line) if word]
        if not words or words[0].startswith(COMMENTS):
            continue
        width = max(width, len(words))
        if wrong := _wrong_line(words, width, first=not graphs):
            raise FileFormatError(f"{path}, line {number}: {wrong}.")
        name, nodes = ("", words) if len(words) < 3 else (words[0], words[1:])
        graph = graphs.setdefault(name, nx.Graph())
        graph.add_nodes_from(nodes)
        if len(nodes) == 2:
            graph.add_edge(*nodes)
    if width == 3 and "" in graphs:
        told = "lines with two and with three words; write equally many in every line"
        raise FileFormatError(f"{path} has {told}; see docs/formats.md#edge-lists.")
    return {name: _sorted(graph) for name, graph in graphs.items()}


def _wrong_line(words: list[str], width: int, first: bool) -> str | None:
    shown, see = " ".join(words), "see docs/formats.md"
    if len(words) > 2 and words[2].startswith("{") and words[-1].endswith("}"):
        how = "nx.write_edgelist(graph, path, data=False), or as JSON to keep them"
        shown = f"{' '.join(words[2:])} holds edge attributes and is no node"
        return f"{shown}; write the file with {how}; {see}#json"
    if first and len(words) > 1 and {word.lower() for word in words[-2:]} <= HEADER:
        return f"{shown} is a header; remove or begin it with #; {see}#edge-lists"
    if len(words) > 3 or (width == 3 and len(words) < 3):
        wanted = "write two nodes, or a graph and two nodes, in every line"
        return f"got {len(words)} words; {wanted}; {see}#edge-lists"
    if len(words) == 3 and WEIGHT.fullmatch(words[2]):
        told = f"{words[2]} is a weight and no node"
        return f"{told}; write graphs with weights as JSON; {see}#json"
    return None


def _sorted(graph: nx.Graph) -> nx.Graph:
    if not all(node.isascii() and node.isdigit() for node in graph):
        return graph
    ordered = nx.Graph()
    ordered.add_nodes_from(sorted(graph, key=int))
    ordered.add_edges_from(graph.edges)
    return ordered
