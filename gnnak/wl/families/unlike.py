"""One graph of each isomorphism class."""

from collections.abc import Sequence

from gnnak.graphs.named import Graph
from gnnak.wl.inputs import read_union
from gnnak.wl.isomorphism import isomorphism_classes


def unlike(graphs: Sequence[Graph]) -> list[Graph]:
    """Keep the first graph of each isomorphism class, in the order given.

    >>> from gnnak.graphs.named import undirected
    >>> path, same = undirected([(0, 1), (1, 2)], 3), undirected([(0, 1), (0, 2)], 3)
    >>> len(unlike([path, same]))
    1
    """
    kept: dict[int, Graph] = {}
    for graph, kind in zip(graphs, classes(graphs), strict=True):
        kept.setdefault(kind, graph)
    return list(kept.values())


def classes(graphs: Sequence[Graph]) -> list[int]:
    """The isomorphism class of every graph, as numbers."""
    return isomorphism_classes(read_union(graphs)).tolist()
