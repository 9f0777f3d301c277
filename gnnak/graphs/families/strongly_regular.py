"""All strongly regular graphs for four choices of the parameters n, d, a and b.

A graph is strongly regular with parameters srg(n, d, a, b) if it has n nodes, every
node has degree d, any two adjacent nodes have exactly `a` common neighbours, and any
two non-adjacent nodes have exactly `b` common neighbours. Neither the Weisfeiler-Leman
(WL) test 3-WL nor the equivalent 2-FWL can distinguish two graphs with the same
parameters. Most of the graphs are built with functions of `two_graphs`.
"""

from itertools import combinations

import numpy as np

from gnnak.graphs.families.two_graphs import (
    Matrix,
    descendants,
    regular_members,
    regular_two_graphs,
)
from gnnak.graphs.named import Graph, rook, shrikhande, undirected

_POINTS = ((0,), (0, 2, 5, 25), (0, 13), (0, 1, 3, 6, 12, 13, 14, 22))
"""Which graphs `srg25` returns: for each of the four matrices of `regular_two_graphs`,
indices into the 26 graphs built from the matrix. The 15 graphs are pairwise
non-isomorphic."""

_SWITCHINGS = ((0,), (0, 1), (0, 1), (0, 1, 2, 5, 11))
"""Which graphs `srg26` returns: for each of the four matrices of `regular_two_graphs`,
indices into the graphs that `regular_members` builds from the matrix. The 10 graphs are
pairwise non-isomorphic."""


def srg16() -> list[Graph]:
    """Return the 4x4 rook's graph and the Shrikhande graph.

    These are the only strongly regular graphs with 16 nodes of degree 6 in which any
    two nodes have 2 common neighbours: srg(16, 6, 2, 2).

    The neighbours of a node form two triangles in the rook's graph and a hexagon in the
    Shrikhande graph. 1-WL cannot distinguish two triangles from a hexagon, because both
    are 2-regular. So the paper's test Subgraph-1-WL*, which compares egonets by 1-WL,
    cannot distinguish the two graphs by 1-hop egonets. Its variant that compares
    egonets by 3-WL can (Theorem 3).
    """
    return [rook(), shrikhande()]


def srg25() -> list[Graph]:
    """Return the 15 strongly regular graphs with 25 nodes of degree 12 (data set SR25).

    Any two adjacent nodes have 5 common neighbours, and any two other nodes have 6:
    srg(25, 12, 5, 6). The function `descendants` builds 26 such graphs from each of the
    four matrices of `regular_two_graphs`; isomorphic duplicates are left out.
    """
    chosen = zip(regular_two_graphs(), _POINTS, strict=True)
    return [_graph(descendants(s)[i]) for s, points in chosen for i in points]


def srg26() -> list[Graph]:
    """Return the 10 strongly regular graphs with 26 nodes of degree 10.

    Any two adjacent nodes have 3 common neighbours, and any two other nodes have 4:
    srg(26, 10, 3, 4). The function `regular_members` builds 188 such graphs from the
    four matrices of `regular_two_graphs`; isomorphic duplicates are left out. The
    graphs were first listed by Paulus.
    """
    found = []
    for matrix, chosen in zip(regular_two_graphs(), _SWITCHINGS, strict=True):
        # Each row has 10 entries -1 (edges) and 15 entries +1, so it sums to 5.
        members = regular_members(matrix, 5)
        found += [_graph(members[i]) for i in chosen]
    return found


def srg28() -> list[Graph]:
    """Return the 4 strongly regular graphs with 28 nodes of degree 12.

    Any two adjacent nodes have 6 common neighbours, and any two other nodes have 4:
    srg(28, 12, 6, 4). One is the triangular graph T(8): its nodes are the pairs of 8
    points, and two pairs are joined if they share one point. The other three, the Chang
    graphs, are obtained from T(8) by switching a set of nodes, that is, by exchanging
    edges and non-edges between the set and the other nodes. As sets of pairs of points,
    the three switched sets are a perfect matching, an 8-cycle, and a triangle with a
    5-cycle.
    """
    pairs = list(combinations(range(8), 2))
    joined = np.array([[len({*a} & {*b}) == 1 for b in pairs] for a in pairs])
    matrix = np.where(joined, -1, 1) - np.eye(28, dtype=np.int64)
    switched = [[(0, 1), (2, 3), (4, 5), (6, 7)], _cycle(range(8))]
    switched.append(_cycle(range(3)) + _cycle(range(3, 8)))
    found = [_graph(matrix)]
    for chosen in switched:
        signs = np.array([-1 if pair in chosen else 1 for pair in pairs])
        found.append(_graph(matrix * np.outer(signs, signs)))
    return found


def _cycle(points: range) -> list[tuple[int, int]]:
    """Return the edges of the cycle through `points`, each as (smaller, larger)."""
    ends = zip(points, [*points[1:], points[0]], strict=True)
    return [(min(end), max(end)) for end in ends]


def _graph(matrix: Matrix) -> Graph:
    """Build a graph from a symmetric matrix in which -1 marks an edge."""
    edges = np.argwhere(np.triu(matrix == -1))
    return undirected([(int(u), int(v)) for u, v in edges], len(matrix))


def is_strongly_regular(graph: Graph, degree: int, joined: int, apart: int) -> bool:
    """Return whether a graph is strongly regular with the given parameters.

    Args:
        graph: The graph, with both directions of every edge.
        degree: Degree of every node.
        joined: Number of common neighbours of any two adjacent nodes.
        apart: Number of common neighbours of any two non-adjacent nodes.

    >>> is_strongly_regular(rook(), 6, 2, 2)
    True
    """
    edge_index, num_nodes = graph
    table = np.zeros((num_nodes, num_nodes), dtype=np.int64)
    table[edge_index[0].numpy(), edge_index[1].numpy()] = 1
    wanted = np.where(table == 1, joined, apart)
    np.fill_diagonal(wanted, degree)
    return bool((table @ table == wanted).all())
