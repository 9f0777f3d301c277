"""Generate the graphs of the data sets `exp-like`, `csl`, `cfi` and `triangles`."""

from collections.abc import Sequence
from dataclasses import replace

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.benchmarks import folds_by_group, stratified_folds
from gnnak.datasets.cache import with_node_features
from gnnak.errors import OptionError
from gnnak.graphs import GraphFile, GraphStore, from_networkx
from gnnak.graphs.families import cfi_pair, csl
from gnnak.graphs.named import Graph, undirected
from gnnak.graphs.store import store_graphs
from gnnak.typing import check_count

EXP_LIKE_PAIRS, CSL_COPIES, CFI_COPIES = 600, 15, 10
CORES = tuple(range(3, 9))
"""Possible lengths of the two short cycles in `exp_like_graphs`."""

CFI_BASES = {
    "K4": nx.complete_graph(4),
    "K33": nx.complete_bipartite_graph(3, 3),
    "prism": nx.circular_ladder_graph(3),
    "cube": nx.cubical_graph(),
    "petersen": nx.petersen_graph(),
    "heawood": nx.heawood_graph(),
}
"""Base graphs of `cfi_graphs`; all are cubic (every node has three neighbours)."""


def csl_graphs(seed: int = 0, copies: int = CSL_COPIES) -> GraphFile:
    """Generate `copies` of each of the 10 CSL graphs, with permuted nodes; 5 folds."""
    random = np.random.default_rng([seed, 1])
    graphs = [graph for graph in csl() for _ in range(copies)]
    y = torch.arange(len(graphs)) // copies
    return GraphFile(relabelled(graphs, y, random), folds=stratified_folds(y, 5, seed))


def cfi_graphs(seed: int = 0, copies: int = CFI_COPIES) -> GraphFile:
    """Generate `copies` CFI pairs (classes 0 and 1) of each base graph; 10 folds."""
    random = np.random.default_rng([seed, 2])
    pairs = [cfi_pair(base) for base in CFI_BASES.values()]
    graphs = [graph for pair in pairs for _ in range(copies) for graph in pair]
    store = relabelled(graphs, torch.arange(len(graphs)) % 2, random)
    pair = torch.arange(len(graphs)) // 2
    return GraphFile(store, folds=folds_by_group(pair, 10, seed))


def exp_like_graphs(seed: int = 0, num_pairs: int = EXP_LIKE_PAIRS) -> GraphFile:
    """Generate pairs of graphs of opposite class that 1-WL cannot distinguish.

    One graph has a long cycle (class 0), the other has two cycles of half its length
    (class 1). In both, the same tree hangs at every node of the cycles, and the same
    random graph is a further component. Corresponding nodes have equal random features.
    """
    random = np.random.default_rng([seed, 3])
    graphs: list[Graph] = []
    features: list[Tensor] = []
    for _ in range(num_pairs):
        length, tree_size = int(random.choice(CORES)), int(random.integers(1, 4))
        parent = [int(random.integers(i)) for i in range(1, tree_size)]
        size, seed = int(random.integers(8, 17)), int(random.integers(2**31))
        extra = nx.gnp_random_graph(size, 0.25, seed=seed)
        tree_x = random.integers(2, size=tree_size)
        extra_x = random.integers(2, size=len(extra))
        x = np.concatenate([np.tile(tree_x, 2 * length), extra_x])
        for cycles in ([2 * length], [length, length]):
            graphs.append(_with_core(cycles, parent, extra))
            features.append(torch.from_numpy(x))
    store = relabelled(graphs, torch.arange(len(graphs)) % 2, random, features)
    pair = torch.arange(len(graphs)) // 2
    return GraphFile(store, folds=folds_by_group(pair, 10, seed))


def _with_core(lengths: list[int], parent: list[int], extra: nx.Graph) -> Graph:
    """Build cycles with the tree `parent` at every node; add the graph `extra`."""
    tree_size = len(parent) + 1
    edges: list[tuple[int, int]] = []
    first = 0
    for length in lengths:
        ring = [tree_size * (first + i) for i in range(length)]
        edges += zip(ring, [*ring[1:], ring[0]], strict=True)
        first += length
    for root in range(0, tree_size * first, tree_size):
        # Tree node 0 lies on the cycle; `parent` has those of nodes 1, 2, ...
        edges += [(root + 1 + i, root + up) for i, up in enumerate(parent)]
    offset = tree_size * first
    edges += [(offset + u, offset + v) for u, v in extra.edges]
    return undirected(edges, offset + len(extra))


def relabelled(
    graphs: Sequence[Graph],
    y: Tensor,
    random: np.random.Generator,
    features: Sequence[Tensor] | None = None,
) -> GraphStore:
    """Permute the nodes of every graph at random, and return all graphs as a store."""
    moved, x = [], []
    for position, (edge_index, size) in enumerate(graphs):
        rank = torch.from_numpy(random.permutation(size))
        ends = rank[edge_index[:, edge_index[0] < edge_index[1]]].sort(dim=0).values
        moved.append((ends[:, (ends[0] * size + ends[1]).argsort()], size))
        column = torch.zeros(size, dtype=torch.long)
        if features is not None:
            column[rank] = features[position]
        x.append(column)
    return replace(store_graphs(moved), x=torch.cat(x)[:, None], y=y)


DEGREE = 4
SIZES = tuple(range(12, 17))


def regular_triangles(num_pairs: int, seed: int = 0) -> GraphStore:
    """Generate pairs of 4-regular graphs, without (class 0) and with triangles (1)."""
    check_count("num_pairs", num_pairs)
    random = np.random.default_rng(seed)
    sizes = (SIZES[pair % len(SIZES)] for pair in range(num_pairs))
    kinds = _without_triangles, _with_triangles
    graphs = [make(size, random) for size in sizes for make in kinds]
    store = with_node_features(from_networkx(graphs))
    return replace(store, y=torch.arange(len(graphs)) % 2)


def count_triangles(graph: nx.Graph) -> int:
    return sum(nx.triangles(graph).values()) // 3


def _with_triangles(size: int, random: np.random.Generator) -> nx.Graph:
    for _ in range(1000):
        graph = nx.random_regular_graph(DEGREE, size, seed=int(random.integers(2**31)))
        if count_triangles(graph):
            return graph
    graph_kind = f"{DEGREE}-regular graph on {size} nodes"
    raise OptionError(f"found no {graph_kind} with triangles.")


def _without_triangles(size: int, random: np.random.Generator) -> nx.Graph:
    for _ in range(100):
        graph = _with_triangles(size, random)
        left, edges = count_triangles(graph), list(graph.edges)
        for _ in range(400):
            chosen = random.choice(len(edges), 2, replace=False)
            (a, b), (c, d) = (edges[i] for i in chosen)
            # Swap a-b and c-d for a-c and b-d, unless this joins nodes twice.
            if len({a, b, c, d}) < 4 or c in graph[a] or d in graph[b]:
                continue
            of = {node: set(graph[node]) for node in (a, b, c, d)}
            lost = len(of[a] & of[b]) + len(of[c] & of[d])
            gained = len((of[a] & of[c]) - {b, d}) + len((of[b] & of[d]) - {a, c})
            if gained <= lost:
                graph.remove_edges_from([(a, b), (c, d)])
                graph.add_edges_from([(a, c), (b, d)])
                left, edges = left + gained - lost, list(graph.edges)
            if not left:
                return graph
    raise OptionError(f"found no triangle-free {DEGREE}-regular graph on {size} nodes.")
