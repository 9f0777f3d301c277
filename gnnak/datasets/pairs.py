"""Generate the data sets EXP-like, CSL and CFI: similar graphs with different labels.

EXP-like imitates the published data set EXP, CSL are circular skip link graphs, and CFI
are Cai-Fürer-Immerman graphs.
"""

from collections.abc import Sequence

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.folds import folds_by_group, stratified_folds
from gnnak.graphs import GraphFile, GraphStore
from gnnak.graphs.families import Graph, cfi_pair, csl

EXP_LIKE_PAIRS, CSL_COPIES, CFI_COPIES = 600, 15, 10
CORES = tuple(range(3, 9))
"""Possible numbers of nodes of the two short cycles in `exp_like_graphs`."""

CFI_BASES = {
    "K4": nx.complete_graph(4),
    "K33": nx.complete_bipartite_graph(3, 3),
    "prism": nx.circular_ladder_graph(3),
    "cube": nx.cubical_graph(),
    "petersen": nx.petersen_graph(),
    "heawood": nx.heawood_graph(),
}
"""Base graphs, by name, from which `cfi_graphs` builds Cai-Fürer-Immerman (CFI) pairs;
all are cubic (every node has three neighbours)."""


def csl_graphs(seed: int = 0, copies: int = CSL_COPIES) -> GraphFile:
    """Generate ten circular skip link (CSL) graphs, each `copies` times.

    The nodes of each generated graph are permuted at random. The class `y`, 0 to 9,
    tells which of the ten graphs was permuted. There are five stratified folds.

    Args:
        seed: Seed of the random permutations and folds.
        copies: How often each graph is generated, with different permutations.
    """
    random = np.random.default_rng([seed, 1])
    graphs = [graph for graph in csl() for _ in range(copies)]
    y = torch.arange(len(graphs)) // copies
    store = relabelled(graphs, y, random)
    return GraphFile(store, folds=stratified_folds(y, 5, seed))


def cfi_graphs(seed: int = 0, copies: int = CFI_COPIES) -> GraphFile:
    """Generate pairs of Cai-Fürer-Immerman (CFI) graphs from each of `CFI_BASES`.

    Graphs 2i and 2i + 1 are a pair: `y` is 0 for the original graph and 1 for the
    twisted graph. The nodes of each graph are permuted at random. There are ten folds;
    both graphs of a pair are in the same fold. Test graphs are node permutations of
    training graphs, so any model that can distinguish the two graphs of a pair can
    solve the task.

    Args:
        seed: Seed of the random permutations and folds.
        copies: Number of pairs per base graph, with different permutations.
    """
    random = np.random.default_rng([seed, 2])
    pairs = [cfi_pair(base) for base in CFI_BASES.values()]
    graphs = [graph for pair in pairs for _ in range(copies) for graph in pair]
    y = torch.arange(len(graphs)) % 2
    pair = torch.arange(len(graphs)) // 2
    store = relabelled(graphs, y, random)
    return GraphFile(store, folds=folds_by_group(pair, 10, seed))


def exp_like_graphs(seed: int = 0, num_pairs: int = EXP_LIKE_PAIRS) -> GraphFile:
    """Generate pairs of graphs of opposite class that 1-WL cannot distinguish.

    1-WL is the Weisfeiler-Leman test, or colour refinement. Graphs 2i and 2i + 1 are a
    pair. Each graph contains a core: one cycle of 2m nodes (class 0) or two cycles of m
    nodes (class 1). The same tree is attached to every core node, and both graphs of a
    pair get the same random graph as a further component. Node features are random
    bits: all attached trees have the same bits, and both graphs of a pair have the same
    bits. The two graphs are not isomorphic, but every stable 1-WL colour occurs equally
    often in both. There are ten folds; both graphs of a pair are in the same fold.

    Args:
        seed: Seed of the graphs and folds.
        num_pairs: Number of pairs: half the number of graphs.
    """
    random = np.random.default_rng([seed, 3])
    graphs: list[Graph] = []
    features: list[Tensor] = []
    for _ in range(num_pairs):
        length, tree_size = int(random.choice(CORES)), int(random.integers(1, 4))
        parent = [int(random.integers(i)) for i in range(1, tree_size)]
        extra = nx.gnp_random_graph(
            int(random.integers(8, 17)), 0.25, seed=int(random.integers(2**31))
        )
        tree_x = random.integers(2, size=tree_size)
        x = np.concatenate(
            [np.tile(tree_x, 2 * length), random.integers(2, size=len(extra))]
        )
        for cycles in ([2 * length], [length, length]):
            graphs.append(_with_core(cycles, parent, extra))
            features.append(torch.from_numpy(x))
    y = torch.arange(len(graphs)) % 2
    store = relabelled(graphs, y, random, features)
    pair = torch.arange(len(graphs)) // 2
    return GraphFile(store, folds=folds_by_group(pair, 10, seed))


def _with_core(lengths: list[int], parent: list[int], extra: nx.Graph) -> Graph:
    """Build a graph: cycles with the same tree attached to every node, and `extra`.

    `lengths` has the number of nodes of each cycle. `parent` has the parent of each
    tree node except the root, which is a node of the cycle. `extra` is not joined to
    the cycles.
    """
    tree_size = len(parent) + 1
    edges: list[tuple[int, int]] = []
    first = 0
    for length in lengths:
        ring = [tree_size * (first + i) for i in range(length)]
        edges += zip(ring, [*ring[1:], ring[0]], strict=True)
        first += length
    for root in range(0, tree_size * first, tree_size):
        edges += [(root + 1 + i, root + up) for i, up in enumerate(parent)]
    offset = tree_size * first
    edges += [(offset + u, offset + v) for u, v in extra.edges]
    once = torch.tensor(edges, dtype=torch.long).t()
    return torch.cat([once, once.flip(0)], dim=1), offset + len(extra)


def relabelled(
    graphs: Sequence[Graph],
    y: Tensor,
    random: np.random.Generator,
    features: Sequence[Tensor] | None = None,
) -> GraphStore:
    """Permute the nodes of every graph at random and collect the graphs in a store.

    Args:
        graphs: `(edge_index, num_nodes)` of each graph, with both directions of every
            edge.
        y: The class of each graph, [g].
        random: Random number generator.
        features: For each graph an integer per node, [n]; zeros if None.

    Returns:
        The graphs with each undirected edge stored once, from the lower to the higher
        node; the edges of a graph are sorted.
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
