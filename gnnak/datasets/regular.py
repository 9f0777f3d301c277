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
        left = count_triangles(graph)
        for _ in range(400):
            switched = _switch(graph, random)
            count = left if switched is None else count_triangles(switched)
            if switched is not None and count <= left:
                graph, left = switched, count
            if not left:
                return graph
    raise OptionError(f"found no triangle-free {DEGREE}-regular graph on {size} nodes.")


def _switch(graph: nx.Graph, random: np.random.Generator) -> nx.Graph | None:
    """Replace two random edges a-b, c-d by a-c, b-d, which preserves all degrees.

    Returns:
        The new graph; None if it would have a self loop or a duplicate edge.
    """
    edges = list(graph.edges)
    (a, b), (c, d) = (edges[i] for i in random.choice(len(edges), 2, replace=False))
    if len({a, b, c, d}) < 4 or graph.has_edge(a, c) or graph.has_edge(b, d):
        return None
    switched = graph.copy()
    switched.remove_edges_from([(a, b), (c, d)])
    switched.add_edges_from([(a, c), (b, d)])
    return switched
