"""Random graphs for the counting task, drawn many at a time."""

import numpy as np
import torch
from numpy.typing import NDArray

from gnnak.datasets.cache import Progress, silent
from gnnak.graphs import GraphFile, GraphStore

SHAPES = ((10, 6), (15, 6), (20, 5), (30, 5))
"""Numbers of nodes and degrees that the counting graphs are drawn from."""
PARTS = (1500, 1000, 2500)
"""Graphs for training, validation and test."""
ENTROPY = 0
"""Part of every seed of this generator."""


def counting_graphs(
    seed: int = 0, num_graphs: int = sum(PARTS), progress: Progress = silent
) -> GraphFile:
    """Random d-regular graphs on n nodes with n random edges deleted, each edge once.

    (n, d) is drawn evenly from `SHAPES` for every graph.

    Args:
        seed: Fixes the graphs.
        num_graphs: How many; the split keeps its shares.
        progress: Told after each graph.
    """
    random = np.random.default_rng([ENTROPY, seed])
    sizes, edges = [], []
    for index, shape in enumerate(random.integers(len(SHAPES), size=num_graphs)):
        num_nodes, degree = SHAPES[shape]
        ends = regular_edges(num_nodes, degree, random)
        kept = random.permutation(len(ends))[num_nodes:]
        sizes.append(num_nodes)
        edges.append(ends[np.sort(kept)])
        progress(index + 1, num_graphs)
    store = GraphStore(
        torch.tensor(sizes, dtype=torch.long),
        torch.tensor([len(ends) for ends in edges], dtype=torch.long),
        torch.from_numpy(np.concatenate(edges).T.copy()),
    )
    return GraphFile(store, split=shared_out(num_graphs, PARTS, random))


def regular_edges(
    num_nodes: int, degree: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """A random d-regular graph, [e, 2], each edge once from low to high.

    Stubs are paired at random; those that make a loop or an edge twice are paired
    anew, and all is drawn again where that gets stuck.
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


def shared_out(
    num_graphs: int, parts: tuple[int, ...], random: np.random.Generator
) -> torch.Tensor:
    """A random split of graphs, [g], in proportion to `parts`."""
    bounds = np.cumsum(parts) * num_graphs // sum(parts)
    split = np.searchsorted(bounds, np.arange(num_graphs), side="right")
    return torch.from_numpy(random.permutation(split))
