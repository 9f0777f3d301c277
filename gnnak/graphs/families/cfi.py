"""Pairs of Cai, Fürer and Immerman: alike to k-WL, for any k, over the right base."""

from itertools import combinations

import networkx as nx

from gnnak.errors import GraphError
from gnnak.graphs.named import Graph, undirected

Node = tuple[object, ...]


def cfi_pair(base: nx.Graph) -> tuple[Graph, Graph]:
    r"""The two graphs $A$ and $B$ over a cubic base graph, as the paper builds them.

    Each base node $u$ becomes a gadget $X_3$ of ten nodes: a pair $a_{u,v}$, $b_{u,v}$
    for each neighbour $v$, and a middle node $m_S$ for each even set $S$ of neighbours,
    joined to $a_{u,v}$ if $v \in S$ and to $b_{u,v}$ if not. For an edge $(u, v)$, $A$
    joins $a_{u,v}$ to $a_{v,u}$ and $b_{u,v}$ to $b_{v,u}$; $B$ crosses one such edge.

    $A$ and $B$ are not isomorphic, and k-WL needs k above the size of the base's
    smallest separator to tell them apart. If the base has girth at least 5,
    Subgraph-1-WL with t-hop egonets cannot for t <= 4, even with an exact HASH
    (Theorem 4).

    Args:
        base: A simple, undirected, connected graph with all degrees 3.

    >>> edge_index, num_nodes = cfi_pair(nx.complete_graph(4))[0]
    >>> num_nodes, edge_index.size(1) // 2
    (40, 60)
    """
    if base.is_directed() or base.is_multigraph() or nx.number_of_selfloops(base):
        raise GraphError(
            "the base graph must be simple and undirected, but it has directions, "
            "parallel edges or self loops; give an nx.Graph without self loops."
        )
    wrong = [node for node, degree in base.degree if degree != 3]
    if wrong or not base or not nx.is_connected(base):
        found = f"node {wrong[0]!r} is not" if wrong else "it is empty or in parts"
        raise GraphError(
            f"the base graph must be connected and cubic, but {found}; give another."
        )
    crossed = next(iter(base.edges))
    return _graph(base, None), _graph(base, crossed)


def _graph(base: nx.Graph, crossed: tuple[object, object] | None) -> Graph:
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
    return [(), *combinations(neighbors, 2)]
