"""Graphs `(edge_index, num_nodes)` from the paper's theorems.

The paper's test Subgraph-1-WL* compares the egonets of all nodes by 1-WL.
"""

from itertools import combinations

import torch
from torch import Tensor

Graph = tuple[Tensor, int]
"""`(edge_index, num_nodes)`, with `edge_index` [2, e]."""


def undirected(edges: list[tuple[int, int]], num_nodes: int) -> Graph:
    """Build a graph from undirected edges; both directions of each edge are stored."""
    once = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return torch.cat([once, once.flip(0)], dim=1), num_nodes


def four_regular_pair() -> tuple[Graph, Graph]:
    """Return two 4-regular graphs on 8 nodes, which Subgraph-1-WL* distinguishes.

    1-WL does not. Only two edges differ: 0-1 and 2-4 in the first graph, 0-2 and 1-4 in
    the second. So the 1-hop egonets of nodes 0, 2, 3, 4 and 5 differ (Theorem 2).
    """
    common = [(0, 3), (0, 4), (0, 6), (1, 2), (1, 3), (1, 7), (2, 5)]
    common += [(2, 7), (3, 4), (3, 6), (4, 5), (5, 6), (5, 7), (6, 7)]
    first = undirected([(0, 1), (2, 4), *common], 8)
    return first, undirected([(0, 2), (1, 4), *common], 8)


def rook() -> Graph:
    """Return the 4x4 rook's graph: cells in the same row or column are joined."""
    cells = combinations(range(16), 2)  # numbered row after row
    edges = [(i, j) for i, j in cells if i // 4 == j // 4 or i % 4 == j % 4]
    return undirected(edges, 16)


def shrikhande() -> Graph:
    """Return the Shrikhande graph, on the cells of a 4x4 board that wraps around.

    Each cell is joined to its neighbours in its row, its column and one diagonal. 3-WL
    does not distinguish this graph from the rook's graph (Theorem 3).
    """
    edges = [
        (cell, 4 * ((cell // 4 + down) % 4) + (cell + right) % 4)
        for cell in range(16)
        for down, right in ((0, 1), (1, 0), (1, 1))
    ]
    return undirected(edges, 16)
