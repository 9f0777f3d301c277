"""Remove isomorphic duplicates from a list of graphs."""

from collections.abc import Sequence

from gnnak.graphs.families import Graph
from gnnak.wl.inputs import read_union
from gnnak.wl.isomorphism import isomorphism_classes


def unlike(graphs: Sequence[Graph]) -> list[Graph]:
    """Return the first graph of each isomorphism class, in the given order.

    >>> from gnnak.graphs.families import undirected
    >>> path, same = undirected([(0, 1), (1, 2)], 3), undirected([(0, 1), (0, 2)], 3)
    >>> len(unlike([path, same]))
    1
    """
    first: dict[int, Graph] = {}
    for graph, number in zip(graphs, classes(graphs), strict=True):
        first.setdefault(number, graph)
    return list(first.values())


def classes(graphs: Sequence[Graph]) -> list[int]:
    """Return a number for every graph, equal for two graphs iff they are isomorphic."""
    return isomorphism_classes(read_union(graphs)).tolist()
