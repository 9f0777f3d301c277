"""Loaders of the synthetic data sets, and the generator of PATTERN."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import one_hot

from gnnak.datasets.assemble import build, read_or_make
from gnnak.datasets.benchmarks import folds_by_group
from gnnak.datasets.cache import (
    Progress,
    Request,
    find_file,
    no_progress,
    with_node_features,
)
from gnnak.datasets.counting import count_substructures, counting_graphs
from gnnak.datasets.mixture import graph_property, property_graphs
from gnnak.datasets.pairs import regular_triangles
from gnnak.datasets.record import Dataset, DatasetInfo
from gnnak.graphs import GraphFile, GraphStore, read_graph6
from gnnak.graphs.families import srg25
from gnnak.graphs.store import store_graphs, with_reverse_edges
from gnnak.nn.features import Categorical

PARTS = (10_000, 2_000, 2_000)
"""Number of graphs for training, validation and test."""
COMMUNITIES, PATTERNS, COLORS = 5, 100, 3
"""Numbers of communities per graph, of different patterns, and of node colours."""
SMALLEST, LARGEST = 5, 35
"""A community or pattern has at least `SMALLEST` and less than `LARGEST` nodes."""
INSIDE, ACROSS, TO_PATTERN = 0.5, 0.35, 0.5
"""Probability of an edge inside a community or pattern, between two communities, and
between the pattern and a community."""
CHUNK = 100
ENTROPY = 28
"""Seed of the random generator, combined with the user's seed. For the user's seed 0,
the mean numbers of nodes and edges are within 1 % of the paper's."""

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


def pattern_graphs(
    seed: int = 0, parts: tuple[int, ...] = PARTS, progress: Progress = no_progress
) -> GraphFile:
    """Generate PATTERN graphs (a stochastic block model); `y` is 1 in the pattern."""
    random = np.random.default_rng([ENTROPY, seed])
    sizes = random.integers(SMALLEST, LARGEST, PATTERNS)
    shape = (PATTERNS, LARGEST, LARGEST)
    joined = np.triu(random.random(shape) < INSIDE, 1)
    colors = random.integers(COLORS, size=shape[:2])
    total = sum(parts)
    split = np.repeat(np.arange(len(parts)), parts)
    which = random.permutation(total) % PATTERNS
    chunks = []
    for first in range(0, total, CHUNK):
        own = which[first : first + CHUNK]
        chunks.append(_chunk(sizes[own], joined[own], colors[own], random))
        progress(min(first + CHUNK, total), total)
    num_nodes, num_edges, edges, x, y = (
        torch.from_numpy(np.concatenate(part, axis=-1))
        for part in zip(*chunks, strict=True)
    )
    x = one_hot(x, COLORS)
    store = GraphStore(num_nodes, num_edges, edges.long(), x, y=y, node_targets=True)
    return GraphFile(store, split=torch.from_numpy(split))


def _chunk(
    pattern_size: Ints, pattern: Bools, color: Ints, random: np.random.Generator
) -> tuple[Ints, Ints, NDArray[np.uint8], Ints, Ints]:
    """Generate one graph per pattern; return node counts, edge counts, edges, x, y."""
    communities = random.integers(SMALLEST, LARGEST, (len(pattern_size), COMMUNITIES))
    ends = np.cumsum(np.column_stack([pattern_size, communities]), axis=1)
    num_nodes = ends[:, -1]
    place = np.arange(num_nodes.max())
    block = (place[None, :, None] >= ends[:, None, :]).sum(axis=2)
    real = place < num_nodes[:, None]
    joined = _join(block, pattern, random) & real[:, :, None] & real[:, None, :]
    colors = random.integers(COLORS, size=real.shape)
    head = min(LARGEST, colors.shape[1])
    colors[:, :head] = np.where(block[:, :head] == 0, color[:, :head], colors[:, :head])
    order = np.argsort(np.where(real, random.random(real.shape), 2.0), axis=1)
    rank = np.argsort(order, axis=1).astype(np.uint8)
    graph, low, high = np.nonzero(joined)
    edges = np.stack([rank[graph, low], rank[graph, high]])
    shuffled = np.take_along_axis(colors, order, axis=1)[real]
    labels = np.take_along_axis((block == 0).astype(np.int64), order, axis=1)[real]
    return num_nodes, joined.sum(axis=(1, 2)), edges, shuffled, labels


def _join(block: Ints, pattern: Bools, random: np.random.Generator) -> Bools:
    """Sample adjacency matrices (upper triangles). Inside block 0, copy `pattern`."""
    graphs, width = block.shape
    same = block[:, :, None] == block[:, None, :]
    to_pattern = (block[:, :, None] == 0) | (block[:, None, :] == 0)
    chance = np.where(same, INSIDE, np.where(to_pattern, TO_PATTERN, ACROSS))
    sampled = random.random((graphs, width, width), dtype=np.float32) < chance
    fixed = np.zeros_like(sampled)
    head = min(LARGEST, width)
    fixed[:, :head, :head] = pattern[:, :head, :head]
    inside = same & (block[:, :, None] == 0)
    return np.triu(np.where(inside, fixed, sampled), 1)


def load_triangles(info: DatasetInfo, request: Request) -> Dataset:
    """Generate 200 pairs of 4-regular graphs; one graph of each pair has triangles."""
    store = regular_triangles(200, request.seed)
    split = torch.tensor([0, 1, 0, 2]).repeat_interleave(2).repeat(len(store) // 8)
    return build(info, GraphFile(store, split), f"generated (seed {request.seed})")


def load_exp(info: DatasetInfo, request: Request) -> Dataset:
    file, source = read_or_make("exp.npz", request, required=("x",))
    pair = torch.arange(len(file.store)) // 2
    file = replace(file, folds=folds_by_group(pair, 10, request.seed))
    return build(info, file, source)


def load_generated(
    make: Callable[[int], GraphFile], info: DatasetInfo, request: Request
) -> Dataset:
    """Generate a small data set with `make(seed)`; it is not cached on disk."""
    file = make(request.seed)
    file = replace(file, store=with_reverse_edges(file.store))
    return build(info, file, f"generated (seed {request.seed})")


def load_sr25(info: DatasetInfo, request: Request) -> Dataset:
    """Load the 15 strongly regular graphs srg(25, 12, 5, 6); each is one class."""
    path = find_file("sr25.g6", request.data_dir)
    store = store_graphs(srg25()) if path is None else read_graph6(path)
    store = replace(with_node_features(store), y=torch.arange(len(store)))
    return build(info, GraphFile(store), "built" if path is None else path.name)


def load_counting(info: DatasetInfo, request: Request) -> Dataset:
    """Load the counting task; counts are divided by their standard deviation."""
    make = partial(counting_graphs, request.seed, progress=request.progress)
    file, source = read_or_make("counting.npz", request, make, seeded=True)
    counts = count_substructures(file.store, request.target)  # type: ignore[arg-type]
    y = (counts / counts.std(correction=0)).float()
    return build(info, replace(file, store=replace(file.store, y=y)), source)


def load_properties(info: DatasetInfo, request: Request) -> Dataset:
    """Load the graph-properties task; targets are divided by their training maximum."""
    make = partial(property_graphs, request.seed, progress=request.progress)
    file, source = read_or_make("properties.npz", request, make, seeded=True)
    values = graph_property(file.store, request.target)  # type: ignore[arg-type]
    y = (values / values[file.indices("train")].max()).float()
    return build(info, replace(file, store=replace(file.store, y=y)), source)


def load_pattern(info: DatasetInfo, request: Request) -> Dataset:
    """Load PATTERN: predict which nodes are in the pattern; `x` is a one-hot colour."""
    make = partial(pattern_graphs, request.seed, progress=request.progress)
    file, source = read_or_make("pattern.npz", request, make, seeded=True)
    return build(info, file, source, Categorical((2,) * COLORS))
