"""Read edge lists: text files with one edge per line.

A line has two nodes, separated by spaces, tabs or commas. Nodes are any words; lines
that begin with `#` or `%` are comments. A line with three words names the graph first,
so that a file can have many graphs. A word alone on a line is a node without edges.
"""

from __future__ import annotations

import re

import networkx as nx

from gnnak.errors import FileFormatError
from gnnak.graphs.readers.files import FilePath, read_bytes

LARGEST = 2 << 30
"""Largest size, in bytes, of a file."""
COMMENTS = ("#", "%")
SEPARATOR = re.compile(r"[\s,;]+")


def read_edge_lists(path: FilePath) -> list[nx.Graph]:
    """Read the undirected graphs of an edge list.

    With two words per line, the file is one graph. With three words per line, the first
    word names the graph; the graphs are returned in the order in which their names
    first occur. Nodes that are whole numbers are sorted by number, other nodes are in
    the order of the file.

    Raises:
        FileFormatError: If the file is missing, not text, or a line has another number
            of words.
    """
    try:
        text = read_bytes(path, at_most=LARGEST).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path} is not UTF-8 text; give an edge list."
        ) from error
    graphs: dict[str, nx.Graph] = {}
    width = 0
    for number, line in enumerate(text.splitlines(), start=1):
        words = [word for word in SEPARATOR.split(line) if word]
        if not words or words[0].startswith(COMMENTS):
            continue
        width = max(width, len(words))
        name, nodes = ("", words) if len(words) < 3 else (words[0], words[1:])
        if len(nodes) > 2 or (width == 3 and len(words) < 3):
            raise FileFormatError(
                f"{path}, line {number}: got {len(words)} words; write two nodes, or "
                "a graph and two nodes, in every line."
            )
        graph = graphs.setdefault(name, nx.Graph())
        graph.add_nodes_from(nodes)
        if len(nodes) == 2:
            graph.add_edge(*nodes)
    if width == 3 and "" in graphs:
        raise FileFormatError(
            f"{path} has lines with two and with three words; write the same number "
            "in every line."
        )
    return [_sorted(graph) for graph in graphs.values()]


def _sorted(graph: nx.Graph) -> nx.Graph:
    """Return the graph with its nodes sorted by number, if all nodes are numbers."""
    if not all(node.isascii() and node.isdigit() for node in graph):
        return graph
    ordered = nx.Graph()
    ordered.add_nodes_from(sorted(graph, key=int))
    ordered.add_edges_from(graph.edges)
    return ordered
