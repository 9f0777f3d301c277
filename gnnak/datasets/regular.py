"""Generate 4-regular graphs with and without triangles.

No message-passing GNN can tell which graphs have triangles: without node features, all
nodes of all 4-regular graphs of one size get the same state. GNNs on 1-hop egonets can,
since a triangle at a node appears there as an edge between two neighbours.
"""

import networkx as nx
import numpy as np
import torch

from gnnak.errors import OptionError
from gnnak.graphs import GraphStore, from_networkx
from gnnak.typing import check_count

DEGREE = 4
SIZES = tuple(range(12, 17))


def regular_triangles(num_pairs: int, seed: int = 0) -> GraphStore:
    """Generate pairs of 4-regular graphs, one without triangles and one with triangles.

    The two graphs of a pair have the same number of nodes. A message-passing GNN cannot
    distinguish them, so its accuracy is exactly 50 %.

    Args:
        num_pairs: Number of pairs, half the number of graphs.
        seed: Seed of the random numbers.

    Returns:
        The graphs; graphs 2i (without triangles, label 0) and 2i + 1 (with triangles,
        label 1) are a pair. All nodes have the same categorical feature.

    >>> regular_triangles(2).y.tolist()
    [0, 1, 0, 1]
    """
    check_count("num_pairs", num_pairs)
    random = np.random.default_rng(seed)
    graphs = []
    for pair in range(num_pairs):
        size = SIZES[pair % len(SIZES)]
        graphs.append(_without_triangles(size, random))
        graphs.append(_with_triangles(size, random))
    store = from_networkx(graphs)
    return GraphStore(
        store.num_nodes,
        store.num_edges,
        store.edge_index,
        x=torch.zeros(int(store.num_nodes.sum()), 1, dtype=torch.long),
        y=torch.arange(len(graphs)) % 2,
    )


def count_triangles(graph: nx.Graph) -> int:
    """Return the number of triangles of a graph."""
    return sum(nx.triangles(graph).values()) // 3


def _with_triangles(size: int, random: np.random.Generator) -> nx.Graph:
    """Sample 4-regular graphs until one has a triangle."""
    for _ in range(1000):
        graph = nx.random_regular_graph(DEGREE, size, seed=int(random.integers(2**31)))
        if count_triangles(graph):
            return graph
    raise OptionError(
        f"found no {DEGREE}-regular graph on {size} nodes with triangles."
    )


def _without_triangles(size: int, random: np.random.Generator) -> nx.Graph:
    """Sample a 4-regular graph and swap its edges until it has no triangle.

    Swaps that increase the number of triangles are rejected.
    """
    for _ in range(100):
        graph = _with_triangles(size, random)
        left, swaps = count_triangles(graph), _Swaps(graph)
        for _ in range(400):
            ends = swaps.sample(random)
            if ends is not None and (change := swaps.added_triangles(*ends)) <= 0:
                swaps.apply(*ends)
                left += change
            if not left:
                return swaps.graph()
    raise OptionError(f"found no triangle-free {DEGREE}-regular graph on {size} nodes.")


class _Swaps:
    """A graph in which pairs of edges a-b, c-d are replaced by a-c, b-d.

    Such a swap preserves all degrees.

    Args:
        graph: The graph to start from, which is not changed.
    """

    def __init__(self, graph: nx.Graph) -> None:
        self.neighbors = {node: set(graph[node]) for node in graph}
        self.place = {node: i for i, node in enumerate(graph)}
        self.ends: list[list[int]] = [[] for _ in graph]
        """Of each node, its neighbours at later places; this orders the edges."""
        for a, b in graph.edges:
            self.ends[self.place[a]].append(b)

    def edges(self) -> list[tuple[int, int]]:
        """Return all edges, ordered as those of a networkx graph."""
        return [(a, b) for a in self.neighbors for b in self.ends[self.place[a]]]

    def sample(self, random: np.random.Generator) -> tuple[int, int, int, int] | None:
        """Sample two edges a-b, c-d; None if their swap makes a loop or a duplicate."""
        edges = self.edges()
        (a, b), (c, d) = (edges[i] for i in random.choice(len(edges), 2, replace=False))
        wrong = (
            len({a, b, c, d}) < 4 or c in self.neighbors[a] or d in self.neighbors[b]
        )
        return None if wrong else (a, b, c, d)

    def added_triangles(self, a: int, b: int, c: int, d: int) -> int:
        """Return by how much a swap increases the number of triangles."""
        of = self.neighbors
        lost = len(of[a] & of[b]) + len(of[c] & of[d])
        gained = len((of[a] & of[c]) - {b, d}) + len((of[b] & of[d]) - {a, c})
        return gained - lost

    def apply(self, a: int, b: int, c: int, d: int) -> None:
        """Replace the edges a-b, c-d by a-c, b-d."""
        for first, second in ((a, b), (c, d)):
            self.neighbors[first].remove(second)
            self.neighbors[second].remove(first)
            self.ends[self.place[first]].remove(second)
        for first, second in ((a, c), (b, d)):
            self.neighbors[first].add(second)
            self.neighbors[second].add(first)
            first, second = sorted((first, second), key=self.place.__getitem__)
            self.ends[self.place[first]].append(second)

    def graph(self) -> nx.Graph:
        """Return the graph after all swaps."""
        graph = nx.Graph()
        graph.add_nodes_from(self.neighbors)
        graph.add_edges_from(self.edges())
        return graph
