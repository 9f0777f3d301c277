"""Loaders of the synthetic data sets, which generate graphs or read a data file."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from gnnak.datasets.assemble import build, read_or_make
from gnnak.datasets.benchmarks import folds_by_group
from gnnak.datasets.cache import Request, find_file, with_node_features
from gnnak.datasets.counting import Substructure, count_substructures, counting_graphs
from gnnak.datasets.mixture import Property, graph_property, property_graphs
from gnnak.datasets.pairs import regular_triangles
from gnnak.datasets.pattern import COLORS, pattern_graphs
from gnnak.datasets.record import Dataset, DatasetInfo
from gnnak.graphs import GraphFile, GraphStore, read_graph6
from gnnak.graphs.families import srg25
from gnnak.graphs.store import with_reverse_edges
from gnnak.nn.features import Categorical


def load_triangles(info: DatasetInfo, request: Request) -> Dataset:
    """Load 200 pairs of 4-regular graphs: one without and one with triangles.

    The pairs are split 2 : 1 : 1 into training, validation and test pairs.
    """
    store = regular_triangles(200, request.seed)
    split = torch.tensor([0, 1, 0, 2]).repeat_interleave(2).repeat(len(store) // 8)
    source = f"generated (seed {request.seed})"
    return build(info, GraphFile(store, split), source)


def load_exp(info: DatasetInfo, request: Request) -> Dataset:
    """Load EXP from its file: pairs 2i, 2i + 1 of graphs that 1-WL cannot distinguish.

    There are ten folds; both graphs of a pair are in the same fold.
    """
    file, source = read_or_make("exp.npz", request, required=("x",))
    pair = torch.arange(len(file.store)) // 2
    file = replace(file, folds=folds_by_group(pair, 10, request.seed))
    return build(info, file, source)


def load_generated(
    make: Callable[[int], GraphFile], info: DatasetInfo, request: Request
) -> Dataset:
    """Generate a small data set with `make(seed)`, without the disk cache."""
    file = make(request.seed)
    file = replace(file, store=with_reverse_edges(file.store))
    return build(info, file, f"generated (seed {request.seed})")


def load_sr25(info: DatasetInfo, request: Request) -> Dataset:
    """Load the 15 strongly regular graphs srg(25, 12, 5, 6); each is one class."""
    path = find_file("sr25.g6", request.data_dir)
    if path is None:
        edges = [edge_index for edge_index, _ in srg25()]
        store = GraphStore(
            torch.full((len(edges),), 25),
            torch.tensor([ends.size(1) for ends in edges]),
            torch.cat(edges, dim=1),
        )
    else:
        store = read_graph6(path)
    store = replace(with_node_features(store), y=torch.arange(len(store)))
    return build(info, GraphFile(store), "built" if path is None else path.name)


def load_counting(info: DatasetInfo, request: Request) -> Dataset:
    """Load the counting task: predict how often a substructure occurs in a graph.

    The counts are divided by their standard deviation over all graphs, including
    validation and test graphs.
    """
    make = partial(counting_graphs, request.seed, progress=request.progress)
    file, source = read_or_make("counting.npz", request, make, seeded=True)
    target: Substructure = request.target  # type: ignore[assignment]
    counts = count_substructures(file.store, target)
    y = (counts / counts.std(correction=0)).float()
    return build(info, _with_y(file, y), source)


def load_properties(info: DatasetInfo, request: Request) -> Dataset:
    """Load the graph-properties task: predict one property, such as the diameter.

    The targets are divided by their maximum over the training graphs.
    """
    make = partial(property_graphs, request.seed, progress=request.progress)
    file, source = read_or_make("properties.npz", request, make, seeded=True)
    target: Property = request.target  # type: ignore[assignment]
    values = graph_property(file.store, target)
    y = (values / values[file.indices("train")].max()).float()
    return build(info, _with_y(file, y), source)


def load_pattern(info: DatasetInfo, request: Request) -> Dataset:
    """Load PATTERN: predict which nodes of a graph belong to a hidden subgraph.

    As in the published data, the colour of a node is three columns of zeros and ones,
    each with its own embeddings.
    """
    make = partial(pattern_graphs, request.seed, progress=request.progress)
    file, source = read_or_make("pattern.npz", request, make, seeded=True)
    return build(info, file, source, Categorical((2,) * COLORS))


def _with_y(file: GraphFile, y: Tensor) -> GraphFile:
    return replace(file, store=replace(file.store, y=y))
