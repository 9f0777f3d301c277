"""Strongly regular graphs, all of those with a few parameter sets.

srg(n, d, a, b): n nodes of degree d; joined nodes have a common neighbours, others b.
Graphs with the same parameters are never told apart by 3-WL (nor by 2-FWL).
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
"""A point of each orbit of the four two-graphs: its descendants are all unlike."""

_SWITCHINGS = ((0,), (0, 1), (0, 1), (0, 1, 2, 5, 11))
"""One of each class among the regular members of the four two-graphs."""


def srg16() -> list[Graph]:
    """srg(16, 6, 2, 2): the 4x4 rook's graph and the Shrikhande graph, all there are.

    Their 1-hop egonets, two triangles or a hexagon around the root, look alike to 1-WL
    (2-regular neighbourhoods), so Subgraph-1-WL* with one hop fails too; with 3-WL
    inside, Subgraph-1-WL tells them apart (Theorem 3).
    """
    return [rook(), shrikhande()]


def srg25() -> list[Graph]:
    """srg(25, 12, 5, 6): all 15, the graphs of the SR25 data set.

    The descendants of the four regular two-graphs on 26 points, one of each class: 1,
    4, 2 and 8 of them. The 104 descendants fall into these 15 classes.
    """
    chosen = zip(regular_two_graphs(), _POINTS, strict=True)
    return [_graph(descendants(s)[i]) for s, points in chosen for i in points]


def srg26() -> list[Graph]:
    """srg(26, 10, 3, 4): all 10, first listed by Paulus.

    The graphs of degree 10 in the four regular two-graphs on 26 points, where every row
    of the Seidel matrix sums to 25 - 2 * 10 = 5: 1, 2, 2 and 5 classes of them. The 188
    ways of switching to one fall into these 10 classes.
    """
    found = []
    for matrix, chosen in zip(regular_two_graphs(), _SWITCHINGS, strict=True):
        members = regular_members(matrix, 5)
        found += [_graph(members[i]) for i in chosen]
    return found


def srg28() -> list[Graph]:
    """srg(28, 12, 6, 4): the triangular graph T(8) and the three Chang graphs.

    The nodes of T(8) are the pairs of 8 points, joined if they share one. Switching it
    with respect to a perfect matching, an 8-cycle, or a triangle and a 5-cycle gives
    the Chang graphs.
    """
    pairs = list(combinations(range(8), 2))
    joined = np.array([[len({*a} & {*b}) == 1 for b in pairs] for a in pairs])
    matrix = np.where(joined, -1, 1) - np.eye(28, dtype=np.int64)
    loops = [[(0, 1), (2, 3), (4, 5), (6, 7)], _cycle(range(8))]
    loops.append(_cycle(range(3)) + _cycle(range(3, 8)))
    found = [_graph(matrix)]
    for loop in loops:
        signs = np.array([-1 if pair in loop else 1 for pair in pairs])
        found.append(_graph(matrix * np.outer(signs, signs)))
    return found


def _cycle(points: range) -> list[tuple[int, int]]:
    ends = zip(points, [*points[1:], points[0]], strict=True)
    return [(min(end), max(end)) for end in ends]


def _graph(matrix: Matrix) -> Graph:
    edges = np.argwhere(np.triu(matrix == -1))
    return undirected([(int(u), int(v)) for u, v in edges], len(matrix))


def is_strongly_regular(graph: Graph, degree: int, joined: int, apart: int) -> bool:
    """Whether a graph is srg(n, degree, joined, apart): the verifier of this file.

    >>> is_strongly_regular(rook(), 6, 2, 2)
    True
    """
    edge_index, num_nodes = graph
    table = np.zeros((num_nodes, num_nodes), dtype=np.int64)
    table[edge_index[0].numpy(), edge_index[1].numpy()] = 1
    wanted = np.where(table == 1, joined, apart)
    np.fill_diagonal(wanted, degree)
    return bool((table @ table == wanted).all())
