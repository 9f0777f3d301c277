"""Cai-Fürer-Immerman (CFI) pairs: two graphs that are hard to distinguish.

For every k, there is a CFI pair that the k-dimensional Weisfeiler-Leman test (k-WL)
cannot distinguish.
"""

from itertools import combinations

import networkx as nx

from gnnak.errors import GraphError
from gnnak.graphs.named import Graph, undirected

Node = tuple[object, ...]


def cfi_pair(base: nx.Graph) -> tuple[Graph, Graph]:
    r"""Build two graphs, $A$ and $B$, that are hard to distinguish, from a base graph.

    Each base node $u$ is replaced by ten nodes: $a_{u,v}$ and $b_{u,v}$ for each of its
    three neighbours $v$, and a middle node $m_S$ for each set $S$ of zero or two
    neighbours. Node $m_S$ is joined to $a_{u,v}$ if $v \in S$, else to $b_{u,v}$.
    For each base edge $(u, v)$, graph $A$ joins $a_{u,v}$ to $a_{v,u}$ and $b_{u,v}$ to
    $b_{v,u}$. Graph $B$ is the same, except that for one base edge $(u, v)$ it joins
    $a_{u,v}$ to $b_{v,u}$ and $b_{u,v}$ to $a_{v,u}$.

    $A$ and $B$ are not isomorphic. The k-dimensional Weisfeiler-Leman test (k-WL) can
    distinguish them only if k is larger than the size of the smallest separator of the
    base graph. The paper's test Subgraph-1-WL, which compares the t-hop egonets of all
    nodes, cannot distinguish them if t <= 4 and the base graph has girth at least 5,
    even if it tests egonets for isomorphism exactly (Theorem 4).

    Args:
        base: A simple, undirected, connected graph in which every node has degree 3.

    >>> edge_index, num_nodes = cfi_pair(nx.complete_graph(4))[0]
    >>> num_nodes, edge_index.size(1) // 2
    (40, 60)
    """
    check_simple(base)
    wrong = [node for node, degree in base.degree if degree != 3]
    if wrong or not base or not nx.is_connected(base):
        found = "it is empty or disconnected"
        if wrong:
            found = f"node {wrong[0]!r} does not have degree 3"
        raise GraphError(
            f"the base graph must be connected and cubic, but {found}; give another."
        )
    crossed = next(iter(base.edges))
    return _graph(base, None), _graph(base, crossed)


def check_simple(base: nx.Graph) -> None:
    """Raise `GraphError` if a base graph is directed or has parallel edges or loops."""
    if base.is_directed() or base.is_multigraph() or nx.number_of_selfloops(base):
        raise GraphError(
            "the base graph must be simple and undirected, but it is directed or has "
            "parallel edges or self loops; give an nx.Graph without self loops."
        )


def _graph(base: nx.Graph, crossed: tuple[object, object] | None) -> Graph:
    """Build one of the two graphs of `cfi_pair` from the base graph.

    The result is graph $A$ if `crossed` is None, else graph $B$, which differs from $A$
    at the base edge `crossed`.
    """
    edges: list[tuple[Node, Node]] = []
    for u in base:
        for chosen in _even_sets(list(base[u])):
            middle = ("m", u, *chosen)
            for v in base[u]:
                edges.append((middle, ("a" if v in chosen else "b", u, v)))
    for u, v in base.edges:
        other = {"a": "b", "b": "a"} if (u, v) == crossed else {"a": "a", "b": "b"}
        edges += [((side, u, v), (other[side], v, u)) for side in "ab"]
    number: dict[Node, int] = {}
    for ends in edges:
        for node in ends:
            number.setdefault(node, len(number))
    return undirected([(number[s], number[t]) for s, t in edges], len(number))


def _even_sets(neighbors: list[object]) -> list[tuple[object, ...]]:
    """Return all subsets of a node's three neighbours with 0 or 2 elements."""
    return [(), *combinations(neighbors, 2)]
