"""Fürer pairs: two graphs that are hard to distinguish, built from any base graph."""

from itertools import combinations

import networkx as nx

from gnnak.errors import GraphError
from gnnak.graphs.families.cfi import check_simple
from gnnak.graphs.named import Graph, undirected

MAX_DEGREE = 12
"""Largest degree of a base graph; a base node of degree d becomes 2^(d-1) nodes."""

Node = tuple[object, frozenset[object]]


def furer_pair(base: nx.Graph) -> tuple[Graph, Graph]:
    r"""Build two non-isomorphic graphs from a connected base graph $B$.

    The nodes of both graphs are the pairs $(x, S)$ of a base node $x$ and a set $S$ of
    an even number of neighbours of $x$. In the first graph, $(x, S)$ and $(y, T)$ are
    joined iff $xy$ is an edge of $B$ and $y \in S \Leftrightarrow x \in T$. The second
    graph is the same, except that for one base edge $xy$ the condition is negated.

    Fürer pairs are Cai-Fürer-Immerman pairs (see `cfi_pair`) without the nodes that
    stand for the ends of base edges. The choice of the base graph decides which
    Weisfeiler-Leman tests distinguish the pair.

    Args:
        base: A simple, undirected, connected graph with at least one edge, and with
            degrees of at most `MAX_DEGREE`.

    >>> edge_index, num_nodes = furer_pair(nx.complete_graph(4))[0]
    >>> num_nodes, edge_index.size(1) // 2
    (16, 48)
    """
    check_simple(base)
    if not base.number_of_edges() or not nx.is_connected(base):
        raise GraphError(
            f"the base graph has {len(base)} nodes and {base.number_of_edges()} edges "
            "and must be connected with at least one edge; give another."
        )
    top = max(degree for _, degree in base.degree)
    if top > MAX_DEGREE:
        raise GraphError(
            f"the base graph has a node of degree {top}, which would become "
            f"{2 ** (top - 1)} nodes; give a graph of degree {MAX_DEGREE} or less."
        )
    return _graph(base, None), _graph(base, next(iter(base.edges)))


def _graph(base: nx.Graph, negated: tuple[object, object] | None) -> Graph:
    """Build one of the two graphs of `furer_pair`.

    The result is the first graph if `negated` is None, else the second graph, whose
    condition is negated for the base edge `negated`.
    """
    members = {x: [(x, chosen) for chosen in _even_sets(list(base[x]))] for x in base}
    number: dict[Node, int] = {}
    for nodes in members.values():
        for node in nodes:
            number[node] = len(number)
    edges = []
    for x, y in base.edges:
        equal = (x, y) != negated
        for first in members[x]:
            for second in members[y]:
                if ((y in first[1]) == (x in second[1])) == equal:
                    edges.append((number[first], number[second]))
    return undirected(edges, len(number))


def _even_sets(neighbors: list[object]) -> list[frozenset[object]]:
    """Return all subsets of a list with an even number of elements."""
    sizes = range(0, len(neighbors) + 1, 2)
    return [frozenset(s) for size in sizes for s in combinations(neighbors, size)]
