"""Graphs for the benchmarks: real ones from the folder GNNAK_DATA, or similar ones."""

import os
from pathlib import Path

import networkx as nx
import numpy as np
import torch

from gnnak.datasets.benchmarks import superpixel_edges
from gnnak.graphs import GraphStore, from_networkx, read_npz


def real_file(name: str) -> Path | None:
    """Return the path of a file in the folder that the variable GNNAK_DATA names.

    Returns:
        The path, or None if the variable is not set or the file does not exist.
    """
    folder = os.environ.get("GNNAK_DATA")
    path = Path(folder) / name if folder else None
    return path if path is not None and path.exists() else None


def molecules(count: int) -> GraphStore:
    """Return the first `count` ZINC molecules.

    Without data, the molecules are random trees with a few rings.
    """
    if path := real_file("zinc12k.npz"):
        return read_npz(path).store.subset(slice(count))
    graphs = []
    for seed in range(count):
        graph = nx.random_labeled_tree(23, seed=seed)
        graph.add_edges_from((i, i + 5) for i in (0, 7, 14))
        graphs.append(graph)
    plain = from_networkx(graphs)
    nodes, edges = int(plain.num_nodes.sum()), int(plain.num_edges.sum())
    atoms = torch.arange(nodes)[:, None] % 28
    bonds = torch.ones(edges, 1, dtype=torch.long)
    labels = torch.arange(count) / count
    return GraphStore(
        plain.num_nodes, plain.num_edges, plain.edge_index, atoms, bonds, labels
    )


def superpixels(count: int) -> GraphStore:
    """Return the first `count` superpixel graphs of CIFAR10.

    Without data, the superpixels are random points with random colours.
    """
    if path := real_file("cifar10-superpixels.npz"):
        store = read_npz(path, allow_no_edges=True).store.subset(slice(count))
    else:
        x = torch.randint(256, (118 * count, 5), generator=torch.Generator())
        none = torch.zeros(count, dtype=torch.long)
        y = torch.arange(count) % 10
        store = GraphStore(none + 118, none, torch.empty(2, 0).long(), x, y=y)
    return superpixel_edges(store)


def computers() -> GraphStore:
    """Return the graph Amazon Computers, without its features; it needs real data."""
    path = real_file("node-computers.npz")
    assert path is not None
    with np.load(path) as arrays:
        once, num_nodes = (
            torch.from_numpy(arrays["edge_index"]).long(),
            len(arrays["y"]),
        )
    both = torch.cat([once, once.flip(0)], dim=1)
    return GraphStore(torch.tensor([num_nodes]), torch.tensor([both.size(1)]), both)


def sparse_graph(num_nodes: int) -> GraphStore:
    """Return one random graph with four directed edges per node."""
    generator = torch.Generator().manual_seed(0)
    once = torch.randint(num_nodes, (2, 2 * num_nodes), generator=generator)
    both = torch.cat([once, once.flip(0)], dim=1)
    return GraphStore(torch.tensor([num_nodes]), torch.tensor([both.size(1)]), both)
