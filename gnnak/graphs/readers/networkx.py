"""Convert networkx graphs, also from node-link JSON, to a `GraphStore`, and back."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from torch import Tensor

from gnnak.errors import FileFormatError, GraphError, kind_of
from gnnak.graphs.fields import Names, listed
from gnnak.graphs.readers.files import FilePath, format_suffix, read_bytes
from gnnak.graphs.readers.rows import BadRow
from gnnak.graphs.store import GraphStore, with_reverse_edges

Categories = Mapping[str, Sequence[str]]
"""Maps a string attribute to all its values; a value is encoded as its position."""


def find_categories(
    graphs: Iterable[nx.Graph],
    node_attr: Sequence[str] = (),
    edge_attr: Sequence[str] = (),
    graph_attr: Sequence[str] = (),
) -> dict[str, tuple[str, ...]]:
    """Return the distinct values, sorted, of each attribute whose values are strings.

    Give the result for the training graphs to `from_networkx` as `categories` when you
    read other graphs, so that equal strings get equal numbers.

    Args:
        graphs: The graphs.
        node_attr: Names of node attributes.
        edge_attr: Names of edge attributes.
        graph_attr: Names of attributes of whole graphs, such as the target.

    >>> water = nx.Graph([("O", "H1"), ("O", "H2")])
    >>> nx.set_node_attributes(water, {"O": "O", "H1": "H", "H2": "H"}, "element")
    >>> find_categories([water], node_attr=["element"])
    {'element': ('H', 'O')}
    """
    found: dict[str, set[str]] = {}
    for graph in graphs:
        attributes = [
            (graph_attr, [graph.graph]),
            (node_attr, (data for _, data in graph.nodes(data=True))),
            (edge_attr, (data for *_, data in graph.edges(data=True))),
        ]
        for names, rows in attributes:
            for data in rows if names else ():
                for name in names:
                    if isinstance(data.get(name), str):
                        found.setdefault(name, set()).add(data[name])
    return {name: tuple(sorted(values)) for name, values in found.items()}


def as_numbers(name: str, value: Any, categories: Categories, where: str) -> list[Any]:
    """Convert an attribute's value to numbers; errors name its owner, `where`."""
    known = categories.get(name)
    value = value.tolist() if hasattr(value, "tolist") else value
    told = f"the attribute {name!r} of {where} is {value!r}"
    if known is None and isinstance(value, str):
        raise GraphError(f"{told}; give numbers, such as the position in a list.")
    if known is None:
        return list(value) if isinstance(value, list | tuple) else [value]
    if not isinstance(value, str):
        wanted = "give numbers only, or strings only"
        raise GraphError(f"{told}, but it is a string elsewhere; {wanted}.")
    if value not in known:
        shown = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        raise GraphError(f"{told}; the known categories are {shown}.")
    return [list(known).index(value)]


def from_networkx(
    graphs: Iterable[nx.Graph],
    node_attr: Names | None = None,
    edge_attr: Names | None = None,
    *,
    target: Names | None = None,
    node_target: Names | None = None,
    categories: Categories | None = None,
) -> GraphStore:
    """Convert networkx graphs to a store; nodes are numbered in iteration order.

    In undirected graphs, every edge is followed by its reverse edge; directed graphs
    get no reverse edges. Parallel edges are preserved, and a self loop is stored once.
    `GraphError` names the first graph that is malformed.

    Args:
        graphs: Directed or undirected graphs or multigraphs, with any hashable nodes.
        node_attr: Names of the node attributes that become the columns of `x`; each is
            a number, a list of numbers or a string. If None, the store has no `x`.
        edge_attr: Names of the edge attributes that become the columns of `edge_attr`.
            If None, the store has no `edge_attr`.
        target: Names of the attributes of the graphs (`graph.graph`) that become the
            targets `y`, one row per graph.
        node_target: Names of the node attributes that become `y`, one row per node.
        categories: For attributes that are strings, all strings in order; a string
            becomes its position. If None, all strings of these graphs, alphabetically
            (see `find_categories`). If {}, strings raise an error.

    >>> from_networkx([nx.path_graph("abc"), nx.DiGraph([(1, 0)])]).edge_index
    tensor([[0, 1, 1, 2, 0],
            [1, 0, 2, 1, 1]])
    """
    if isinstance(graphs, nx.Graph):
        raise GraphError("this is one networkx graph; give a list of them.")
    if target is not None and node_target is not None:
        both = f"target is {target!r} and node_target is {node_target!r}"
        raise GraphError(f"{both}; give one of them.")
    graphs = list(graphs)
    for number, graph in enumerate(graphs):
        if not isinstance(graph, nx.Graph):
            kind = kind_of(graph)
            raise GraphError(f"graph {number} is {kind}; give networkx graphs.")
    if categories is None:
        of_nodes = [*listed(node_attr), *listed(node_target)]
        others = listed(edge_attr), listed(target)
        categories = find_categories(graphs, of_nodes, *others)
    names = node_attr, edge_attr, target, node_target
    parts = [_rows(f"graph {i}", g, names, categories) for i, g in enumerate(graphs)]
    x, edge_rows, per_graph, per_node = (
        [row for part in parts for row in part[place]] for place in range(4)
    )
    numbers = [{node: number for number, node in enumerate(graph)} for graph in graphs]
    ends = [
        (number[source], number[end])
        for graph, number in zip(graphs, numbers, strict=True)
        for source, end, *_ in graph.edges
    ]
    directed = [graph.is_directed() for graph in graphs for _ in graph.edges]
    y = _table(per_node if node_target else per_graph, target or node_target)
    store = GraphStore(
        torch.tensor([len(graph) for graph in graphs], dtype=torch.long),
        torch.tensor([len(graph.edges) for graph in graphs], dtype=torch.long),
        torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t().contiguous(),
        _table(x, node_attr),
        _table(edge_rows, edge_attr),
        y if y is None or y.size(1) != 1 else y.flatten(),
        node_targets=node_target is not None,
    )
    return with_reverse_edges(store.check(), torch.tensor(directed, dtype=torch.bool))


def to_networkx(store: GraphStore, index: int) -> nx.MultiDiGraph:
    """Convert one graph of a store to a directed multigraph with nodes 0..n-1.

    Features become the attributes `x` and `edge_attr`, as lists. To get an undirected
    graph, use `nx.Graph(to_networkx(store, index))`.

    Args:
        store: The graphs.
        index: Position of the graph in the store.

    >>> to_networkx(from_networkx([nx.path_graph(3)]), 0).edges()
    OutMultiEdgeDataView([(0, 1), (1, 0), (1, 2), (2, 1)])
    """
    one = store[index]
    nodes: list[dict[str, Any]] = [{}] * one.num_nodes
    if one.x is not None:
        nodes = [{"x": row} for row in one.x.tolist()]
    edges: list[dict[str, Any]] = [{}] * one.num_edges
    if one.edge_attr is not None:
        edges = [{"edge_attr": row} for row in one.edge_attr.tolist()]
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(enumerate(nodes))
    graph.add_edges_from(zip(*one.edge_index.tolist(), edges, strict=True))
    return graph


def _rows(
    where: str, graph: nx.Graph, names: Sequence[Names | None], categories: Categories
) -> list[list[list[float]]]:
    """Return tables of node features, edge features, graph targets and node targets."""
    nodes = [(f"node {n!r} of {where}", data) for n, data in graph.nodes(data=True)]
    edges = [(f"edge {(s, t)!r} of {where}", d) for s, t, d in graph.edges(data=True)]
    parts = zip(names, (nodes, edges, [(where, graph.graph)], nodes), strict=True)
    return [
        [_row(*item, wanted, categories) for item in items if wanted is not None]
        for wanted, items in parts
    ]


def _row(
    where: str, data: Mapping[str, Any], names: Names | None, categories: Categories
) -> list[float]:
    row: list[float] = []
    for name in listed(names):
        if name not in data:
            raise GraphError(f"{where} has no attribute {name!r}; set it.")
        row.extend(as_numbers(name, data[name], categories, where))
    return row


def _table(rows: list[list[float]], names: Names | None) -> Tensor | None:
    """Convert rows of values to an int64 or float32 tensor; None without `names`."""
    if names is None:
        return None
    if not rows:
        return torch.zeros(0, len(listed(names)), dtype=torch.long)
    try:
        table = torch.tensor(rows)
    except (TypeError, ValueError, RuntimeError) as error:
        told = f"the attributes {names!r} are not numbers or differ in length"
        raise GraphError(f"{told}: {error}.") from error
    if table.is_complex():
        raise GraphError(f"the attributes {names!r} are complex; give real numbers.")
    return table.float() if table.is_floating_point() else table.long()


LARGEST = 2 << 30
"""Largest size of a JSON file, in bytes."""
Row = Any
"""A networkx graph, or a `BadRow` for a row that is not a graph."""


def read_node_link(path: FilePath) -> list[Row]:
    """Read node-link JSON: one graph, a list or, in `.jsonl`, one graph per line."""
    where = Path(path)
    text = read_bytes(path, at_most=LARGEST)
    if format_suffix(where) == ".jsonl":
        lines = (line for line in text.splitlines() if line.strip())
        return [_from_line(number, line) for number, line in enumerate(lines, start=1)]
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        told = f"{where} is not JSON ({_reason(error)}); give networkx graphs as"
        see = "node-link JSON; see docs/formats.md#json"
        raise FileFormatError(f"{told} {see}.") from error
    items = content if isinstance(content, list) else [content]
    return [_graph(number, item) for number, item in enumerate(items, start=1)]


def _from_line(number: int, line: bytes) -> Row:
    try:
        return _graph(number, json.loads(line))
    except (ValueError, RecursionError) as error:
        return BadRow(number, f"it is not JSON ({_reason(error)})")


def _graph(number: int, item: Any) -> Row:
    if not isinstance(item, dict) or "nodes" not in item:
        reason = "it is not a node-link graph with a list of nodes"
        return BadRow(number, f"{reason}; see docs/formats.md#json")
    edges = "edges" if "edges" in item else "links"
    listed = item.get(edges, ())
    if isinstance(listed, list) and not all(isinstance(e, dict) for e in listed):
        reason = 'its edges are not objects such as {"source": 0, "target": 1}'
        return BadRow(number, f"{reason}; see docs/formats.md#json")
    bare, options = {**item, edges: []}, {"directed": False, "multigraph": False}
    try:
        known = nx.node_link_graph(bare, edges=edges, **options)
        graph = nx.node_link_graph({**bare, **item}, edges=edges, **options)
    except Exception as error:  # networkx raises many types for malformed objects
        reason = f"it is not a node-link graph ({_reason(error)})"
        return BadRow(number, f"{reason}; see docs/formats.md#json")
    if len(known) not in (0, len(graph)):
        node = next(node for node in graph if node not in known)
        return BadRow(number, f"an edge joins node {node!r}, which nodes does not list")
    return graph


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    return " ".join(str(error).split())[:80] or type(error).__name__
