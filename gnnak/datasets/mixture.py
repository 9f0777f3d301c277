"""Random graphs of many kinds, and their properties, such as the diameter."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal, get_args

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnnak.datasets.cache import Progress, no_progress
from gnnak.datasets.counting import adjacency
from gnnak.graphs import GraphFile, GraphStore
from gnnak.graphs.store import store_graphs
from gnnak.typing import check_choice

Matrix = NDArray[np.bool_]
Sampler = Callable[[int, np.random.Generator], nx.Graph]
"""Samples a graph; the arguments are its number of nodes and a random generator."""

PARTS = ((512, range(15, 25)), (128, range(15, 20)), (256, range(15, 20)))
"""For training, validation and test, a pair: how many graphs are sampled of each size,
and the sizes (numbers of nodes)."""
KEEP_THRESHOLD = 0.9
"""As in the paper's code, `toggled` keeps an edge of a sparse graph if the mean of two
uniform random numbers is below this, which keeps 98 % of the edges."""
ENTROPY = 0
"""Seed of the random generator, combined with the user's seed. For the user's seed 0,
the mean number of edges is within 1 % of the paper's; it varies by 1.4 % between seeds.
"""


def _seed(random: np.random.Generator) -> int:
    return int(random.integers(2**31))


def _sides(size: int) -> tuple[int, int]:
    low = max(i for i in range(1, int(size**0.5) + 1) if size % i == 0)
    return low, size // low


def _ladder(size: int, random: np.random.Generator) -> nx.Graph:
    graph = nx.ladder_graph(size // 2)
    if size % 2:
        graph.add_edge(0, size - 1)
    return graph


def _tree_on_path(size: int, random: np.random.Generator, most: int) -> nx.Graph:
    """Sample a tree with every node at most `most` (1 or 2) edges away from a path."""
    spine = int(random.integers(1, size))
    near = size if most == 1 else int(random.integers(spine + 1, size + 1))
    graph = nx.path_graph(spine)
    graph.add_edges_from((i, int(random.integers(spine))) for i in range(spine, near))
    rest = range(near, size)
    graph.add_edges_from((i, int(random.integers(spine, near))) for i in rest)
    return graph


MIXTURE: dict[str, tuple[float, Sampler]] = {
    "erdos-renyi": (
        0.2,
        lambda n, r: nx.fast_gnp_random_graph(n, r.random(), _seed(r)),
    ),
    "barabasi-albert": (
        0.2,
        lambda n, r: nx.barabasi_albert_graph(n, int(r.integers(1, n)), _seed(r)),
    ),
    "grid": (0.05, lambda n, r: nx.grid_2d_graph(*_sides(n))),
    "caveman": (0.05, lambda n, r: nx.caveman_graph(*_sides(n))),
    "tree": (0.15, lambda n, r: nx.random_powerlaw_tree(n, seed=_seed(r), tries=10**4)),
    "ladder": (0.05, _ladder),
    "line": (0.05, lambda n, r: nx.path_graph(n)),
    "star": (0.05, lambda n, r: nx.star_graph(n - 1)),
    "caterpillar": (0.1, partial(_tree_on_path, most=1)),
    "lobster": (0.1, partial(_tree_on_path, most=2)),
}
"""For each random graph model: the probability of choosing the model, and a function
that samples its parameters uniformly, and then a graph."""


def property_graphs(
    seed: int = 0, share: float = 1.0, progress: Progress = no_progress
) -> GraphFile:
    """Sample graphs from `MIXTURE`, and change some edges (`toggled`).

    The first column of `x`, [n, 2], marks a random node, the second is uniform noise.
    The numbers of graphs in `PARTS` are multiplied by `share`.
    """
    random = np.random.default_rng([ENTROPY, seed])
    plan = [
        (part, size)
        for part, (count, sizes) in enumerate(PARTS)
        for size in sizes
        for _ in range(max(1, round(share * count)))
    ]
    names, shares = list(MIXTURE), [share for share, _ in MIXTURE.values()]
    graphs, x = [], []
    for done, (_, size) in enumerate(plan, start=1):
        sampler = MIXTURE[names[random.choice(len(names), p=shares)]][1]
        joined = _without_isolated_nodes(sampler, size, random)
        edges = np.argwhere(np.triu(joined))
        graphs.append((torch.from_numpy(edges.T.copy()), size))
        source = np.arange(size) == random.integers(size)
        x.append(np.column_stack([source, random.random(size)]))
        progress(done, len(plan))
    features = torch.from_numpy(np.concatenate(x)).float()
    split = torch.tensor([part for part, _ in plan])
    return GraphFile(replace(store_graphs(graphs), x=features), split=split)


def toggled(joined: Matrix, random: np.random.Generator) -> Matrix:
    """Remove some random edges of an adjacency matrix [n, n] and add about as many."""
    size = len(joined)
    edges, change = joined.sum() / 2, 1 - KEEP_THRESHOLD
    others = size * (size - 1) / 2 - edges
    keep, add = KEEP_THRESHOLD, change * edges / max(others, 1)
    if edges > others:
        keep, add = 1 - change * others / edges, change
    half = random.random((size, size)) / 2
    found = half + half.T < np.where(joined, keep, add)
    np.fill_diagonal(found, False)
    return found


def _without_isolated_nodes(
    sampler: Sampler, size: int, random: np.random.Generator
) -> Matrix:
    """Sample a graph, permute its nodes and change edges, until no node is isolated."""
    while True:
        graph = sampler(size, random)
        order = random.permutation(size)
        joined = nx.to_numpy_array(graph, dtype=bool)[np.ix_(order, order)]
        found = toggled(joined, random)
        if found.any(axis=0).all():
            return found


Property = Literal[
    "connected", "connected-legacy", "diameter", "radius", "spectral-radius"
]
PROPERTIES: tuple[Property, ...] = get_args(Property)
CHUNK = 512


def graph_property(store: GraphStore, name: Property) -> Tensor:
    r"""Compute one property of every graph; return the values, [g], float64.

    The eccentricity $e(i)$ is the largest finite distance of a node from node $i$.

    - `connected`: 1 if the graph is connected, else 0.
    - `connected-legacy`: 1 if $A^{2^k}$ with $2^k \ge 2n$ has no zero, else 0. This is
      the label of the paper's code; connected bipartite graphs wrongly get 0.
    - `diameter`: $\max_i e(i)$, also of disconnected graphs, as in the paper's code.
    - `radius`: $\min_i e(i)$, also of disconnected graphs.
    - `spectral-radius`: the largest eigenvalue of the adjacency matrix $A$.
    """
    check_choice("property", name, PROPERTIES)
    found = [torch.zeros(0, dtype=torch.double)]
    for first in range(0, len(store), CHUNK):
        last = min(first + CHUNK, len(store))
        matrix = adjacency(store, first, last)
        real = torch.arange(matrix.size(1)) < store.num_nodes[first:last, None]
        found.append(_property(matrix, real, name).double())
    return torch.cat(found)


def _property(matrix: Tensor, real: Tensor, name: Property) -> Tensor:
    """Compute one property of each graph, [g]; `real` is False for padding nodes."""
    if name == "spectral-radius":
        return torch.linalg.eigvalsh(matrix).amax(dim=1)
    both = real[:, :, None] & real[:, None, :]
    if name == "connected-legacy":
        power = matrix
        for _ in range(1 + (matrix.size(1) - 1).bit_length()):
            power = (power @ power).clamp(max=1)
        return ((power > 0) | ~both).all(dim=2).all(dim=1)
    hops = _distances(matrix)
    if name == "connected":
        return ((hops >= 0) | ~both).all(dim=2).all(dim=1)
    eccentricity = hops.amax(dim=2)
    if name == "diameter":
        return eccentricity.masked_fill(~real, 0).amax(dim=1)
    return eccentricity.masked_fill(~real, matrix.size(1)).amin(dim=1)


def _distances(matrix: Tensor) -> Tensor:
    """Return the distances of all pairs of nodes, [g, n, n]; -1 without a path."""
    size = matrix.size(1)
    reached = torch.eye(size, dtype=matrix.dtype).expand_as(matrix)
    hops = torch.where(reached > 0, 0, -1)
    for distance in range(1, size):
        reached = ((reached @ matrix + reached) > 0).to(matrix.dtype)
        new = (reached > 0) & (hops < 0)
        if not new.any():
            break
        hops = hops.masked_fill(new, distance)
    return hops
