"""Pairs of graphs that are alike to weak tests and labelled differently."""

from collections.abc import Sequence

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.folds import folds_by_group, stratified_folds
from gnnak.graphs import GraphFile, GraphStore
from gnnak.graphs.families import cfi_pair, csl
from gnnak.graphs.named import Graph

EXP_LIKE_PAIRS, CSL_COPIES, CFI_COPIES = 600, 15, 10
CORES = tuple(range(3, 9))
"""Lengths of the shorter cycles in the cores of `exp_like_graphs`."""

CFI_BASES = {
    "K4": nx.complete_graph(4),
    "K33": nx.complete_bipartite_graph(3, 3),
    "prism": nx.circular_ladder_graph(3),
    "cube": nx.cubical_graph(),
    "petersen": nx.petersen_graph(),
    "heawood": nx.heawood_graph(),
}
"""Cubic graphs that the pairs of `cfi_graphs` are built over."""


def csl_graphs(seed: int = 0, copies: int = CSL_COPIES) -> GraphFile:
    """Ten circular skip links on 41 nodes, each relabelled at random `copies` times.

    `y` is the graph, 0 to 9; five folds with the same number of each.
    """
    random = np.random.default_rng([seed, 1])
    graphs = [graph for graph in csl() for _ in range(copies)]
    y = torch.arange(len(graphs)) // copies
    store = relabelled(graphs, y, random)
    return GraphFile(store, folds=stratified_folds(y, 5, seed))


def cfi_graphs(seed: int = 0, copies: int = CFI_COPIES) -> GraphFile:
    """CFI pairs over `CFI_BASES`, each pair relabelled at random `copies` times.

    Graphs (2i, 2i + 1) are a pair: `y` is 0 for the plain one, 1 for the twisted one.
    The ten folds keep pairs together; as in CSL, a tested graph has been seen under
    other node numbers: whoever tells twisted from plain can answer.
    """
    random = np.random.default_rng([seed, 2])
    pairs = [cfi_pair(base) for base in CFI_BASES.values()]
    graphs = [graph for pair in pairs for _ in range(copies) for graph in pair]
    y = torch.arange(len(graphs)) % 2
    pair = torch.arange(len(graphs)) // 2
    store = relabelled(graphs, y, random)
    return GraphFile(store, folds=folds_by_group(pair, 10, seed))


def exp_like_graphs(seed: int = 0, num_pairs: int = EXP_LIKE_PAIRS) -> GraphFile:
    """Pairs that 1-WL cannot tell apart, of opposite classes, with a binary feature.

    Both graphs of pair (2i, 2i + 1) hold a core: one cycle of 2m nodes (class 0), or
    two cycles of m nodes (class 1). To every core node the same rooted tree is hung,
    and beside the core lies the same random graph, with random features; so every
    stable colour counts equally often in both, and the graphs are not isomorphic.

    Args:
        seed: Fixes the graphs; the ten folds keep pairs together.
        num_pairs: Half the number of graphs.
    """
    random = np.random.default_rng([seed, 3])
    graphs: list[Graph] = []
    features: list[Tensor] = []
    for _ in range(num_pairs):
        length, hung = int(random.choice(CORES)), int(random.integers(1, 4))
        parent = [int(random.integers(i)) for i in range(1, hung)]
        beside = nx.gnp_random_graph(
            int(random.integers(8, 17)), 0.25, seed=int(random.integers(2**31))
        )
        tree_x = random.integers(2, size=hung)
        x = np.concatenate(
            [np.tile(tree_x, 2 * length), random.integers(2, size=len(beside))]
        )
        for cycles in ([2 * length], [length, length]):
            graphs.append(_with_core(cycles, parent, beside))
            features.append(torch.from_numpy(x))
    y = torch.arange(len(graphs)) % 2
    store = relabelled(graphs, y, random, features)
    pair = torch.arange(len(graphs)) // 2
    return GraphFile(store, folds=folds_by_group(pair, 10, seed))


def _with_core(lengths: list[int], parent: list[int], beside: nx.Graph) -> Graph:
    """Cycles whose nodes are the roots of equal trees, and another graph beside them.

    Node `hung * i` is the i-th core node, the rest of its tree follows it.
    """
    hung = len(parent) + 1
    edges: list[tuple[int, int]] = []
    first = 0
    for length in lengths:
        ring = [hung * (first + i) for i in range(length)]
        edges += zip(ring, [*ring[1:], ring[0]], strict=True)
        first += length
    for root in range(0, hung * first, hung):
        edges += [(root + 1 + i, root + up) for i, up in enumerate(parent)]
    edges += [(hung * first + u, hung * first + v) for u, v in beside.edges]
    once = torch.tensor(edges, dtype=torch.long).t()
    return torch.cat([once, once.flip(0)], dim=1), hung * first + len(beside)


def relabelled(
    graphs: Sequence[Graph],
    y: Tensor,
    random: np.random.Generator,
    features: Sequence[Tensor] | None = None,
) -> GraphStore:
    """Graphs under random new node numbers, each edge once from low to high, sorted.

    Args:
        graphs: Both directions of every edge, and the number of nodes.
        y: Their classes, [g].
        random: Where the numbers come from.
        features: A whole number for every node of each; zeros if not given.
    """
    edges, x = [], []
    for position, (edge_index, size) in enumerate(graphs):
        rank = torch.from_numpy(random.permutation(size))
        ends = rank[edge_index[:, edge_index[0] < edge_index[1]]].sort(dim=0).values
        edges.append(ends[:, (ends[0] * size + ends[1]).argsort()])
        column = torch.zeros(size, dtype=torch.long)
        if features is not None:
            column[rank] = features[position]
        x.append(column)
    return GraphStore(
        torch.tensor([size for _, size in graphs], dtype=torch.long),
        torch.tensor([ends.size(1) for ends in edges], dtype=torch.long),
        torch.cat(edges, dim=1),
        x=torch.cat(x)[:, None],
        y=y,
    )
