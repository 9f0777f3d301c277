"""Convert networkx graphs to a `GraphStore`, and back."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import networkx as nx
import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs.reverse_edges import with_reverse_edges
from gnnak.graphs.store import GraphStore

Names = str | Sequence[str]
"""The name of one attribute, or the names of several attributes, whose values are
concatenated as columns."""


def from_networkx(
    graphs: Iterable[nx.Graph],
    node_attr: Names | None = None,
    edge_attr: Names | None = None,
) -> GraphStore:
    """Convert networkx graphs to a store; nodes are numbered in iteration order.

    In undirected graphs, every edge is followed by its reverse edge; directed graphs
    get no reverse edges. Parallel edges are preserved, and a self loop is stored once.

    Args:
        graphs: Directed or undirected graphs or multigraphs, with any hashable nodes.
        node_attr: Names of the node attributes that become the columns of `x`; each is
            a number or a list of numbers. If None, the store has no `x`.
        edge_attr: Names of the edge attributes that become the columns of `edge_attr`.
            If None, the store has no `edge_attr`.

    Raises:
        GraphError: If an item is not a graph, or an attribute is missing or not a
            number; the message names the graph.

    >>> from_networkx([nx.path_graph("abc"), nx.DiGraph([(1, 0)])]).edge_index
    tensor([[0, 1, 1, 2, 0],
            [1, 0, 2, 1, 1]])
    """
    if isinstance(graphs, nx.Graph):
        raise GraphError("this is one networkx graph; give a list of them.")
    raws = [
        _one(number, graph, node_attr, edge_attr) for number, graph in enumerate(graphs)
    ]
    ends = torch.tensor([pair for raw in raws for pair in raw.ends], dtype=torch.long)
    directed = [raw.directed for raw in raws for _ in raw.ends]
    store = GraphStore(
        torch.tensor([raw.size for raw in raws], dtype=torch.long),
        torch.tensor([len(raw.ends) for raw in raws], dtype=torch.long),
        ends.reshape(-1, 2).t().contiguous(),
        _table([row for raw in raws for row in raw.node_rows], node_attr),
        _table([row for raw in raws for row in raw.edge_rows], edge_attr),
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


class _Raw(NamedTuple):
    """One networkx graph as Python lists of edges and attribute values."""

    size: int
    directed: bool
    ends: list[tuple[int, int]]
    node_rows: list[list[float]]
    edge_rows: list[list[float]]


def _one(
    number: int, graph: nx.Graph, node_attr: Names | None, edge_attr: Names | None
) -> _Raw:
    if not isinstance(graph, nx.Graph):
        kind = type(graph).__name__
        raise GraphError(f"graph {number} is a {kind}; give networkx graphs.")
    place: dict[Hashable, int] = {node: index for index, node in enumerate(graph)}
    nodes = list(graph.nodes(data=True))
    edges = list(graph.edges(data=True))
    return _Raw(
        len(place),
        graph.is_directed(),
        [(place[source], place[target]) for source, target, _ in edges],
        [_row(number, f"node {item[0]!r}", item[-1], node_attr) for item in nodes],
        [_row(number, f"edge {item[:2]!r}", item[-1], edge_attr) for item in edges],
    )


def _row(
    number: int, what: str, data: Mapping[str, Any], names: Names | None
) -> list[float]:
    """Concatenate the values of the named attributes of one node or edge.

    Args:
        number: Position of the graph, for error messages.
        what: The node or edge in words, for error messages.
        data: All attributes of the node or edge.
        names: Names of the attributes to concatenate; None = no attributes.
    """
    row: list[float] = []
    for name in _listed(names):
        if name not in data:
            raise GraphError(
                f"{what} of graph {number} has no attribute {name!r}; set it."
            )
        value = data[name].tolist() if hasattr(data[name], "tolist") else data[name]
        row.extend(value if isinstance(value, list | tuple) else [value])
    return row


def _table(rows: list[list[float]], names: Names | None) -> Tensor | None:
    """Convert the attribute values of all nodes or edges to a tensor, one row each.

    Integers and bools become int64, other numbers float32. The result is None if
    `names` is None.
    """
    if names is None:
        return None
    if not rows:
        return torch.zeros(0, len(_listed(names)), dtype=torch.long)
    try:
        table = torch.tensor(rows)
    except (TypeError, ValueError, RuntimeError) as error:
        raise GraphError(
            f"the attributes {names!r} are not numbers or differ in length: {error}."
        ) from error
    if table.is_complex():
        raise GraphError(f"the attributes {names!r} are complex; give real numbers.")
    return table.float() if table.is_floating_point() else table.long()


def _listed(names: Names | None) -> Sequence[str]:
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else names
