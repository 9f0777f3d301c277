"""A few named graphs that the theory is told with, as (edge_index, num_nodes)."""

import torch
from torch import Tensor

Graph = tuple[Tensor, int]


def undirected(edges: list[tuple[int, int]], num_nodes: int) -> Graph:
    """Both directions of each edge.

    >>> undirected([(0, 1)], 3)
    (tensor([[0, 1],
            [1, 0]]), 3)
    """
    once = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return torch.cat([once, once.flip(0)], dim=1), num_nodes


def four_regular_pair() -> tuple[Graph, Graph]:
    """Two 4-regular graphs on 8 nodes that 1-WL cannot tell apart.

    They differ in one switch of two edges: 0-1 and 2-4 become 0-2 and 1-4. The 1-hop
    egonets of nodes 0, 2, 3, 4 and 5 differ, so Subgraph-1-WL* tells them apart
    (Theorem 2). The paper shows such a pair in a figure whose edges it does not list.
    """
    common = [(0, 3), (0, 4), (0, 6), (1, 2), (1, 3), (1, 7), (2, 5)]
    common += [(2, 7), (3, 4), (3, 6), (4, 5), (5, 6), (5, 7), (6, 7)]
    first = undirected([(0, 1), (2, 4), *common], 8)
    second = undirected([(0, 2), (1, 4), *common], 8)
    return first, second


def rook() -> Graph:
    """The 4x4 rook's graph, srg(16, 6, 2, 2): cells that share a row or a column."""
    cells = [(row, column) for row in range(4) for column in range(4)]
    edges = [
        (i, j)
        for i, a in enumerate(cells)
        for j, b in enumerate(cells)
        if i < j and (a[0] == b[0] or a[1] == b[1])
    ]
    return undirected(edges, 16)


def shrikhande() -> Graph:
    """The Shrikhande graph, srg(16, 6, 2, 2), on the torus Z4 x Z4.

    Not isomorphic to the rook's graph, and not told apart from it by 3-WL: there the
    neighbours of a node form two triangles, here a hexagon (Theorem 3).
    """
    steps = [(0, 1), (1, 0), (1, 1)]
    edges = [
        (4 * row + column, 4 * ((row + down) % 4) + (column + right) % 4)
        for row in range(4)
        for column in range(4)
        for down, right in steps
    ]
    return undirected(edges, 16)
