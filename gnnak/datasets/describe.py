"""Statistics of a data set, and the memory that its rooted subgraphs need."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.datasets.cache import find_file
from gnnak.datasets.record import Dataset, Entry, Published
from gnnak.errors import SizeError
from gnnak.graphs import GraphStore
from gnnak.graphs.adjacency import incoming
from gnnak.graphs.ragged import counts_of
from gnnak.nn.features import Categorical, Features
from gnnak.subgraphs import advice
from gnnak.subgraphs.copy_limit import free_bytes
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.encodings import without_encodings
from gnnak.subgraphs.extractors import Extractor, extract


@dataclass(frozen=True)
class Description:
    """Statistics of one data set, as `gnnak datasets describe` prints them."""

    name: str
    graphs: str
    """Number of graphs; `train / validation / test` if there is a split."""
    nodes: float
    """Mean number of nodes per graph; see `over_training`."""
    edges: float
    """Mean number of edges per graph; see `over_training` and `edges_once`."""
    over_training: tuple[str, ...]
    """Which of `"nodes"` and `"edges"` are means over the training graphs only."""
    edges_once: bool
    """Whether `edges` counts an undirected edge once instead of twice."""
    folds: int
    """Number of cross-validation folds; 0 if there are none."""
    node_features: str
    """Type and size, for example `categorical 28` for 28 categories."""
    edge_features: str
    """Like `node_features`; an empty string if edges have no features."""
    task: str
    """`regression`, `classification` or `multilabel`."""
    outputs: int
    """Number of regression targets, classes or labels."""
    metric: str
    """Name of the metric, for example `mae`."""
    protocols: tuple[str, ...]
    """The ways to split and score the data set, the default first."""
    source: str
    """Where the graphs come from: a file name, `generated (seed 0)`, ..."""
    paper_graphs: str | None
    """Number of graphs printed in the paper; None if the paper does not say."""
    paper_nodes: str | None
    """Mean number of nodes per graph in the paper; None if the paper does not say."""
    paper_edges: str | None
    """Mean number of edges per graph in the paper; None if the paper does not say."""
    note: str
    """Why the paper's numbers differ from the measured ones; "" if unknown."""

    def as_dict(self) -> dict[str, object]:
        """Return all fields as a dict that can be written as JSON."""
        values = asdict(self).items()
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values}


def describe_dataset(entry: Entry, dataset: Dataset) -> Description:
    """Compute the statistics of a data set, and add the paper's statistics.

    Args:
        entry: The data set's entry in `DATASETS`, with the paper's statistics.
        dataset: The loaded data set.
    """
    info, store = dataset.info, dataset.store
    row = entry.published or Published(None, None, None)
    edges = store.num_edges / 2 if row.once else store.num_edges
    parts = [len(store)]
    if dataset.split is not None and not info.one_graph:
        parts = torch.bincount(dataset.split, minlength=3).tolist()
    return Description(
        info.name,
        " / ".join(map(str, parts)),
        _mean(store.num_nodes, dataset, "nodes" in row.over_training),
        _mean(edges, dataset, "edges" in row.over_training),
        row.over_training,
        row.once,
        dataset.num_folds,
        describe_features(info.node_features),
        describe_features(info.edge_features),
        info.task,
        info.num_outputs,
        info.metric,
        info.protocols,
        info.source,
        *(row.graphs, row.nodes, row.edges, row.note),
    )


def agrees(measured: float, printed: str) -> bool:
    """Return whether `measured` rounds or truncates to the paper's number `printed`."""
    digits = len(printed.partition(".")[2])
    return abs(measured - float(printed)) < 10.0**-digits


def describe_features(features: Features | None) -> str:
    """Return features as text, such as `categorical 28`; None gives an empty string."""
    if features is None:
        return ""
    if isinstance(features, Categorical):
        return f"categorical {' '.join(map(str, features.sizes))}"
    return f"continuous {features.channels}"


def whereabouts(entry: Entry, data_dir: str | os.PathLike[str] | None = None) -> str:
    found = entry.file_name and find_file(entry.file_name, data_dir)
    return "at hand" if found else entry.origin


def _mean(values: Tensor, dataset: Dataset, trained: bool) -> float:
    if trained and dataset.split is not None:
        values = values[dataset.split == 0]
    return float(values.double().mean()) if values.numel() else 0.0


STATES_PER_COPY, STATES_PER_EDGE_COPY = 15, 1
"""Measured numbers of vectors that one GIN-AK+ layer saves for backward, per node copy
and per edge copy. On ZINC, EXP, counting and IMDB-B, the error of
`SubgraphSizes.training_bytes` is at most 6 %."""
FLOAT_BYTES = 4
CHUNK = 64
"""Number of graphs whose rooted subgraphs are extracted at a time."""


class SubgraphSizes(NamedTuple):
    nodes: Tensor
    """Number of nodes, and so of rooted subgraphs, of each graph, [g], int64."""
    copies: Tensor
    """Number of node copies of each graph, [g], int64."""
    edge_copies: Tensor
    """Number of edge copies of each graph, [g], int64."""

    @staticmethod
    def join(parts: Sequence[SubgraphSizes]) -> SubgraphSizes:
        return SubgraphSizes(*map(torch.cat, zip(*parts, strict=True)))

    def training_bytes(
        self,
        batch_size: int,
        num_layers: int = 6,
        channels: int = 128,
        hop_channels: int = 16,
    ) -> float:
        r"""Estimate the memory of one GIN-AK+ step in bytes, without weights and data.

        $$4 L (d + h)\,b\,(15\,\bar m + \bar f)$$

        for L layers of width d, hop embeddings of width h, and batches of b graphs. On
        average, a graph has $\bar m$ node copies and $\bar f$ edge copies.
        """
        states = STATES_PER_COPY * float(self.copies.double().mean())
        states += STATES_PER_EDGE_COPY * float(self.edge_copies.double().mean())
        vectors = num_layers * batch_size * states
        return FLOAT_BYTES * (channels + hop_channels) * vectors


def subgraph_sizes(
    store: GraphStore, extractor: Extractor, generator: torch.Generator | None = None
) -> Iterator[SubgraphSizes]:
    """Extract rooted subgraphs and yield their sizes, for `CHUNK` graphs at a time."""
    for first in range(0, len(store), CHUNK):
        chunk = store.subset(slice(first, min(first + CHUNK, len(store))))
        yield _measure(chunk, extractor, generator)


def _measure(
    store: GraphStore, extractor: Extractor, generator: torch.Generator | None
) -> SubgraphSizes:
    batch = store.union()
    edges, size = batch.edge_index, batch.num_nodes
    try:
        found = extract(extractor, edges, size, generator, batch.batch)
    except SizeError:
        if len(store) == 1:
            raise
        half = len(store) // 2
        halves = store.subset(slice(0, half)), store.subset(slice(half, len(store)))
        return SubgraphSizes.join([_measure(h, extractor, generator) for h in halves])
    graph = batch.batch.index_select(0, found.node)
    at_edge = graph.index_select(0, found.edge_index[0])
    counts = (counts_of(rows, batch.num_graphs) for rows in (graph, at_edge))
    return SubgraphSizes(batch.ptr.diff(), *counts)


def one_graph_advice(
    store: GraphStore,
    extractor: Extractor,
    device: torch.device,
    num_layers: int = 6,
    channels: int = 128,
    hop_channels: int = 16,
) -> str | None:
    """Suggest how to save memory in training on one graph; None if there is enough."""
    free = free_bytes(device)
    if free is None or not advice.can_choose_roots(extractor):
        return None
    edge_index, size = store.edge_index, int(store.node_ptr[-1])
    seconds = advice.WHOLE_SECONDS
    whole = advice.estimated_sizes(extractor, edge_index, size, seconds=seconds)

    def cost(sizes: advice.Sizes, one_layer: bool = False) -> float:
        rows = (torch.tensor([float(each)]) for each in (size, *sizes[:2]))
        layers = 1 if one_layer else num_layers
        return SubgraphSizes(*rows).training_bytes(1, layers, channels, hop_channels)

    if cost(whole) <= free:
        return None
    needed, of_free = (f"{count / 2**30:.1f} GiB" for count in (cost(whole), free))
    told = f"a training step on the whole graph needs about {needed}, but {of_free} are"
    if not isinstance(extractor, EgoNets) or extractor.max_neighbors is not None:
        return f"{told} free; add --max-copies 100000, or see docs/large-graph.md."
    neighbors = incoming(edge_index, size)
    # SubgraphDrop samples from all egonets, so these must fit.
    drop, hops = advice.extraction_bytes(whole) <= free, extractor.num_hops
    return f"{told} free; {advice.advice(neighbors, hops, whole, free, cost, drop)}."


SAMPLE = 64
"""Largest number of graphs that `sampled_sizes` measures."""


def sampled_sizes(store: GraphStore, extractor: Extractor) -> SubgraphSizes | None:
    """Measure subgraphs of `SAMPLE` graphs; None without graphs, or on `SizeError`."""
    if not len(store):
        return None
    count = min(SAMPLE, len(store))
    chosen = torch.linspace(0, len(store) - 1, count).round().long()
    generator = torch.Generator().manual_seed(0)
    bare = without_encodings(extractor)
    try:
        sizes = subgraph_sizes(store.subset(chosen), bare, generator)
        return SubgraphSizes.join(list(sizes))
    except SizeError:
        return None


def memory_advice(needed: float, batch_size: int, device: torch.device) -> str | None:
    free = free_bytes(device)
    if free is None or needed <= free:
        return None
    fitting = int(batch_size * free / needed)
    lower = "fewer layers, channels or hops"
    use = f"a batch size of {fitting}, or {lower}" if fitting > 1 else lower
    return (
        f"a training step on {batch_size} graphs needs about {needed / 2**30:.1f} GiB, "
        f"but {free / 2**30:.1f} GiB are free; use {use}, or a model with the "
        "suffix -s, which trains on a sample of the subgraphs."
    )
