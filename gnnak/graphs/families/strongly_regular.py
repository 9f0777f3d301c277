"""All strongly regular graphs of four parameter sets.

A graph is srg(n, d, a, b) if it has n nodes of degree d, adjacent nodes have exactly a
common neighbours, and other nodes exactly b. Neither 3-WL nor 2-FWL can distinguish two
graphs with the same parameters.
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
"""Points of the four two-graphs, in this order, whose descendants are pairwise
non-isomorphic and represent all isomorphism classes."""

_SWITCHINGS = ((0,), (0, 1), (0, 1), (0, 1, 2, 5, 11))
"""Positions in `regular_members` of the four two-graphs, in this order: one graph of
each isomorphism class."""


def srg16() -> list[Graph]:
    """Return both graphs srg(16, 6, 2, 2): the 4x4 rook's and the Shrikhande graph.

    In the 1-hop egonets, the neighbours of the root form two triangles in one graph and
    a hexagon in the other. 1-WL cannot distinguish these, because both are 2-regular,
    so Subgraph-1-WL* with one hop fails; Subgraph-1-WL with 3-WL as its HASH
    distinguishes the graphs (Theorem 3).
    """
    return [rook(), shrikhande()]


def srg25() -> list[Graph]:
    """Return all 15 graphs srg(25, 12, 5, 6), the graphs of the SR25 data set.

    They are descendants of the four regular two-graphs on 26 points. Each two-graph has
    26 descendants, which belong to 1, 4, 2 and 8 isomorphism classes.
    """
    chosen = zip(regular_two_graphs(), _POINTS, strict=True)
    return [_graph(descendants(s)[i]) for s, points in chosen for i in points]


def srg26() -> list[Graph]:
    """Return all 10 graphs srg(26, 10, 3, 4), first listed by Paulus.

    They are the graphs of degree 10 in the four regular two-graphs on 26 points, whose
    Seidel matrices have row sum 25 - 2 * 10 = 5. The four two-graphs contain 188 of
    them in total, which belong to 1, 2, 2 and 5 isomorphism classes.
    """
    found = []
    for matrix, chosen in zip(regular_two_graphs(), _SWITCHINGS, strict=True):
        members = regular_members(matrix, 5)
        found += [_graph(members[i]) for i in chosen]
    return found


def srg28() -> list[Graph]:
    """Return all graphs srg(28, 12, 6, 4): T(8) and the three Chang graphs.

    The nodes of the triangular graph T(8) are the pairs of 8 points; two pairs are
    joined if they share one point. Switching T(8) (defined in `two_graphs`)
    with respect to a perfect matching, an 8-cycle, or a triangle and a 5-cycle gives
    one Chang graph each.
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
    """Return the edges of the cycle through `points`, each from low to high."""
    ends = zip(points, [*points[1:], points[0]], strict=True)
    return [(min(end), max(end)) for end in ends]


def _graph(matrix: Matrix) -> Graph:
    """Return the graph of a Seidel matrix: an entry of -1 is an edge."""
    edges = np.argwhere(np.triu(matrix == -1))
    return undirected([(int(u), int(v)) for u, v in edges], len(matrix))


def is_strongly_regular(graph: Graph, degree: int, joined: int, apart: int) -> bool:
    """Check whether a graph is srg(n, degree, joined, apart).

    Args:
        graph: The graph, with both directions of every edge.
        degree: Degree of every node.
        joined: Number of common neighbours of two adjacent nodes.
        apart: Number of common neighbours of two other nodes.

    >>> is_strongly_regular(rook(), 6, 2, 2)
    True
    """
    edge_index, num_nodes = graph
    table = np.zeros((num_nodes, num_nodes), dtype=np.int64)
    table[edge_index[0].numpy(), edge_index[1].numpy()] = 1
    wanted = np.where(table == 1, joined, apart)
    np.fill_diagonal(wanted, degree)
    return bool((table @ table == wanted).all())
