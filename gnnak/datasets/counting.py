"""Random graphs, and counts of small substructures such as triangles as targets."""

from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.utils import to_dense_adj

from gnnak.datasets.cache import Progress, no_progress
from gnnak.errors import GraphError
from gnnak.graphs import GraphFile, GraphStore
from gnnak.graphs.store import store_graphs
from gnnak.typing import check_choice

Substructure = Literal["triangle", "tailed-triangle", "star", "4-cycle"]
SUBSTRUCTURES: tuple[Substructure, ...] = get_args(Substructure)
MAX_NODES = 512


def count_substructures(store: GraphStore, substructure: Substructure) -> Tensor:
    r"""Count one substructure in every graph; return the counts, [g], float64.

    With $A$ the adjacency matrix and $d_i$ the degree of node $i$, the counts are:

    - `triangle`: $\text{tr}\,A^3 / 6$.
    - `tailed-triangle`: $\sum_i (A^3)_{ii} / 2 \cdot (d_i - 2)$.
    - `star`, with three leaves: $\sum_i \binom{d_i}{3}$.
    - `4-cycle`: $(\text{tr}\,A^4 + \text{tr}\,A^2 - 2 \sum_{ij} (A^2)_{ij}) / 8$.
    """
    check_choice("substructure", substructure, SUBSTRUCTURES)
    counts = [
        _count(adjacency(store, first, min(first + 512, len(store))), substructure)
        for first in range(0, len(store), 512)
    ]
    none = torch.zeros(0, dtype=torch.double, device=store.device)
    return torch.cat([none, *counts])


def adjacency(store: GraphStore, first: int, last: int) -> Tensor:
    """Return the adjacency matrices of graphs `first` to `last - 1`, padded with 0."""
    largest = int(store.num_nodes[first:last].max())
    if largest > MAX_NODES:
        raise GraphError(f"a graph has {largest} nodes; give at most {MAX_NODES}.")
    some = store[slice(first, last)]
    sizes = {"max_num_nodes": largest, "batch_size": last - first}
    dense = to_dense_adj(some.edge_index, some.batch, **sizes).double()
    loops = dense.diagonal(dim1=1, dim2=2).any()
    if loops or (dense > 1).any() or not torch.equal(dense, dense.transpose(1, 2)):
        told = "a graph is directed or has a self loop or a parallel edge"
        raise GraphError(f"{told}; give simple undirected graphs.")
    return dense


def _count(adjacency: Tensor, substructure: Substructure) -> Tensor:
    degree = adjacency.sum(dim=2)
    if substructure == "star":
        return (degree * (degree - 1) * (degree - 2)).sum(dim=1) / 6
    square = adjacency @ adjacency
    if substructure == "4-cycle":
        closed = (square * square).sum(dim=(1, 2))
        back = square.diagonal(dim1=1, dim2=2).sum(dim=1)
        return (closed + back - 2 * square.sum(dim=(1, 2))) / 8
    around = (square * adjacency).sum(dim=2)
    if substructure == "triangle":
        return around.sum(dim=1) / 6
    return (around / 2 * (degree - 2)).sum(dim=1)


SHAPES = ((10, 6), (15, 6), (20, 5), (30, 5))
"""Pairs (number of nodes, degree); each graph uses one of them at random."""
PARTS = (1500, 1000, 2500)
"""Number of graphs for training, validation and test."""
ENTROPY = 0
"""Seed of the random generator, combined with the user's seed."""


def counting_graphs(
    seed: int = 0, num_graphs: int = sum(PARTS), progress: Progress = no_progress
) -> GraphFile:
    """Generate random regular graphs; in a graph of n nodes, delete n random edges."""
    random = np.random.default_rng([ENTROPY, seed])
    graphs = []
    for index, shape in enumerate(random.integers(len(SHAPES), size=num_graphs)):
        num_nodes, degree = SHAPES[shape]
        ends = regular_edges(num_nodes, degree, random)
        remaining = random.permutation(len(ends))[num_nodes:]
        graphs.append((torch.from_numpy(ends[np.sort(remaining)].T.copy()), num_nodes))
        progress(index + 1, num_graphs)
    bounds = np.cumsum(PARTS) * num_graphs // sum(PARTS)
    split = np.searchsorted(bounds, np.arange(num_graphs), side="right")
    mixed = torch.from_numpy(random.permutation(split))
    return GraphFile(store_graphs(graphs), split=mixed)


def regular_edges(
    num_nodes: int, degree: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Sample a regular graph by the pairing model; return each edge once, [e, 2]."""
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
