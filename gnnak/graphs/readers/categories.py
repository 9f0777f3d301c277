"""Number the categories of attributes of networkx graphs that are strings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import networkx as nx

from gnnak.errors import GraphError

Categories = Mapping[str, Sequence[str]]
"""For each attribute whose values are strings, all values; the position of a value is
its number."""


def find_categories(
    graphs: Iterable[nx.Graph],
    node_attr: Sequence[str] = (),
    edge_attr: Sequence[str] = (),
    graph_attr: Sequence[str] = (),
) -> dict[str, tuple[str, ...]]:
    """Return the values of all attributes that are strings, in alphabetical order.

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
        for data, names in _attributes(graph, node_attr, edge_attr, graph_attr):
            for name in names:
                if isinstance(data.get(name), str):
                    found.setdefault(name, set()).add(data[name])
    return {name: tuple(sorted(values)) for name, values in found.items()}


def as_numbers(name: str, value: Any, categories: Categories, where: str) -> list[Any]:
    """Return the value of an attribute as a list of numbers; a string as its number.

    Args:
        name: Name of the attribute.
        value: A number, a string, or a list, tuple, array or tensor of numbers.
        categories: The known strings by name of the attribute.
        where: The node, edge or graph in words, for the error message.

    Raises:
        GraphError: If a string is unknown, or if the attribute is a number here and a
            string elsewhere.
    """
    known = categories.get(name)
    value = value.tolist() if hasattr(value, "tolist") else value
    if known is None:
        return list(value) if isinstance(value, list | tuple) else [value]
    if not isinstance(value, str):
        raise GraphError(
            f"the attribute {name!r} of {where} is {value!r}, but it is a string "
            "elsewhere; give numbers only, or strings only."
        )
    if value not in known:
        shown = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        raise GraphError(
            f"the attribute {name!r} of {where} is {value!r}; the known categories are "
            f"{shown}."
        )
    return [list(known).index(value)]


def _attributes(
    graph: nx.Graph,
    node_attr: Sequence[str],
    edge_attr: Sequence[str],
    graph_attr: Sequence[str],
) -> Iterator[tuple[Mapping[str, Any], Sequence[str]]]:
    """Yield the attributes of a graph, its nodes and edges, and the names to read."""
    yield graph.graph, graph_attr
    if node_attr:
        yield from ((data, node_attr) for _, data in graph.nodes(data=True))
    if edge_attr:
        yield from ((data, edge_attr) for *_, data in graph.edges(data=True))
