"""Read networkx graphs from JSON in the node-link format.

Node-link JSON is what `networkx.node_link_data` returns: an object with the lists
`nodes` and `edges` (or `links`), and the flags `directed` and `multigraph`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx

from gnnak.errors import FileFormatError
from gnnak.graphs.readers.files import FilePath, read_bytes
from gnnak.graphs.readers.packed import format_suffix
from gnnak.graphs.readers.rows import BadRow

LARGEST = 2 << 30
"""Largest size, in bytes, of a JSON file."""
Row = Any
"""A networkx graph, or the `BadRow` of a row that is not a graph."""


def read_node_link(path: FilePath) -> list[Row]:
    """Read graphs from a JSON file.

    The file is a list of graphs, a single graph, or (`.jsonl`) one graph per line.

    Returns:
        For each row the graph, or the reason why the row is not a graph.

    Raises:
        FileFormatError: If the file is missing or is not JSON.
    """
    where = Path(path)
    text = read_bytes(path, at_most=LARGEST)
    if format_suffix(where) == ".jsonl":
        return [_from_line(number, line) for number, line in _lines(text)]
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{where} is not JSON ({_reason(error)}); give networkx graphs as "
            "node-link JSON."
        ) from error
    items = content if isinstance(content, list) else [content]
    return [_graph(number, item) for number, item in enumerate(items, start=1)]


def _lines(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not blank, with their numbers from 1."""
    return enumerate((line for line in text.splitlines() if line.strip()), start=1)


def _from_line(number: int, line: bytes) -> Row:
    try:
        return _graph(number, json.loads(line))
    except (ValueError, RecursionError) as error:
        return BadRow(number, f"it is not JSON ({_reason(error)})")


def _graph(number: int, item: Any) -> Row:
    """Convert one node-link object to a graph; return a `BadRow` if it is malformed."""
    if not isinstance(item, dict) or "nodes" not in item:
        return BadRow(number, "it is not a node-link graph with a list of nodes")
    edges = "edges" if "edges" in item else "links"
    try:
        return nx.node_link_graph(
            {edges: [], **item}, directed=False, multigraph=False, edges=edges
        )
    except Exception as error:  # networkx raises many types for malformed objects
        return BadRow(number, f"it is not a node-link graph ({_reason(error)})")


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    return " ".join(str(error).split())[:80] or type(error).__name__
