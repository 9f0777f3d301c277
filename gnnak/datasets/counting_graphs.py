"""Generate random graphs for the task of counting substructures."""

import numpy as np
import torch
from numpy.typing import NDArray

from gnnak.datasets.cache import Progress, no_progress
from gnnak.graphs import GraphFile, GraphStore

SHAPES = ((10, 6), (15, 6), (20, 5), (30, 5))
"""Pairs (number of nodes, degree); each graph uses one of them at random."""
PARTS = (1500, 1000, 2500)
"""Number of graphs for training, validation and test."""
ENTROPY = 0
"""Constant that is combined with the user's seed to seed the random generator."""


def counting_graphs(
    seed: int = 0, num_graphs: int = sum(PARTS), progress: Progress = no_progress
) -> GraphFile:
    """Generate random d-regular graphs with n nodes and delete n random edges of each.

    For every graph, the pair (n, d) is sampled uniformly from `SHAPES`. Each undirected
    edge is stored once, from the lower to the higher node; reverse edges are added when
    the data set is loaded. There is no `y`: `count_substructures` computes the targets.

    Args:
        seed: Seed of the random numbers.
        num_graphs: Number of graphs, split in the proportions of `PARTS`.
        progress: Called after each graph.
    """
    random = np.random.default_rng([ENTROPY, seed])
    sizes, edges = [], []
    for index, shape in enumerate(random.integers(len(SHAPES), size=num_graphs)):
        num_nodes, degree = SHAPES[shape]
        ends = regular_edges(num_nodes, degree, random)
        remaining = random.permutation(len(ends))[num_nodes:]
        sizes.append(num_nodes)
        edges.append(ends[np.sort(remaining)])
        progress(index + 1, num_graphs)
    store = GraphStore(
        torch.tensor(sizes, dtype=torch.long),
        torch.tensor([len(ends) for ends in edges], dtype=torch.long),
        torch.from_numpy(np.concatenate(edges).T.copy()),
    )
    return GraphFile(store, split=random_split(num_graphs, PARTS, random))


def regular_edges(
    num_nodes: int, degree: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Sample a random graph in which every node has `degree` neighbours.

    This is the pairing model: each node has `degree` stubs (half-edges), and stubs are
    paired at random to form edges. Stubs whose pair would be a self loop or a duplicate
    edge are shuffled and paired again. If stubs are left after 100 rounds, all edges
    are discarded and the sampling starts again.

    Returns:
        The undirected edges, each once, from the lower to the higher node, [e, 2].
    """
    while True:
        edges: set[tuple[int, int]] = set()
        stubs = np.repeat(np.arange(num_nodes), degree)
        for _ in range(100):
            random.shuffle(stubs)
            left = []
            for low, high in np.sort(stubs.reshape(-1, 2), axis=1).tolist():
                if low == high or (low, high) in edges:
                    left += [low, high]
                else:
                    edges.add((low, high))
            stubs = np.array(left, dtype=np.int64)
            if not left:
                return np.array(sorted(edges), dtype=np.int64)


def random_split(
    num_graphs: int, parts: tuple[int, ...], random: np.random.Generator
) -> torch.Tensor:
    """Assign graphs to training (0), validation (1) and test (2) at random.

    Args:
        num_graphs: Number of graphs, g.
        parts: Relative sizes of the three parts.
        random: Random number generator.

    Returns:
        The part of each graph, [g].
    """
    bounds = np.cumsum(parts) * num_graphs // sum(parts)
    split = np.searchsorted(bounds, np.arange(num_graphs), side="right")
    return torch.from_numpy(random.permutation(split))
