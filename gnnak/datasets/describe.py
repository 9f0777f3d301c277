"""Statistics of a data set, and the memory that its rooted subgraphs need."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from gnnak.datasets.cache import find_file
from gnnak.datasets.record import Dataset, Entry
from gnnak.errors import SizeError
from gnnak.graphs import GraphStore
from gnnak.graphs.ragged import counts_of
from gnnak.nn.features import Categorical, Features
from gnnak.subgraphs.copy_limit import free_bytes
from gnnak.subgraphs.encodings import without_encodings
from gnnak.subgraphs.extractors import Extractor, extract


@dataclass(frozen=True)
class Description:
    """Statistics of one data set, as `gnnak datasets describe` prints them."""

    name: str
    """Name of the data set in gnnak."""
    graphs: str
    """Number of graphs; written as `train / validation / test` if there is a split."""
    nodes: float
    """Mean number of nodes per graph, over all graphs or only over the training graphs
    (see `over_training`)."""
    edges: float
    """Mean number of edges per graph, over all graphs or only over the training graphs
    (see `over_training`). `edges_once` tells how undirected edges are counted."""
    over_training: tuple[str, ...]
    """Which of `"nodes"` and `"edges"` are means over the training graphs only; empty
    if both means are over all graphs."""
    edges_once: bool
    """Whether `edges` counts an undirected edge as one edge instead of two."""
    folds: int
    """Number of cross-validation folds; 0 if the data set has no folds."""
    node_features: str
    """Type and size of the node features, for example `categorical 28` for 28
    categories."""
    edge_features: str
    """Type and size of the edge features, for example `categorical 4` for 4 categories;
    empty if edges have no features."""
    task: str
    """The task: regression, classification or multilabel."""
    outputs: int
    """Number of outputs: regression targets, classes or labels."""
    metric: str
    """Name of the metric that predictions are scored with, for example `mae`."""
    protocols: tuple[str, ...]
    """Names of the protocols (ways to split and score the data set) that the data set
    supports, the default first."""
    source: str
    """Where the graphs come from: a file name, `generated (seed 0)`, ..."""
    paper_graphs: str | None
    """Number of graphs in the paper's table of data sets; None if the table does not
    have this data set."""
    paper_nodes: str | None
    """Mean number of nodes as printed in the paper's table; None if the table does not
    have this data set."""
    paper_edges: str | None
    """Mean number of edges as printed in the paper's table; None if the table does not
    have this data set."""
    note: str
    """Known reason why the paper's numbers differ from the measured ones; empty if no
    reason is known."""

    def as_dict(self) -> dict[str, object]:
        """Return all fields as a dict that can be written as JSON."""
        return asdict(self) | {
            "protocols": list(self.protocols),
            "over_training": list(self.over_training),
        }


def describe_dataset(entry: Entry, dataset: Dataset) -> Description:
    """Compute the statistics of a data set, and add those that the paper prints.

    Args:
        entry: The data set's entry in `DATASETS`, with the paper's statistics.
        dataset: The loaded data set.
    """
    info, store, row = dataset.info, dataset.store, entry.published
    once = row is not None and row.once
    edges = store.num_edges / 2 if once else store.num_edges
    trained = () if row is None else row.over_training
    return Description(
        info.name,
        _parts(dataset),
        _mean(store.num_nodes, dataset, "nodes" in trained),
        _mean(edges, dataset, "edges" in trained),
        trained,
        once,
        dataset.num_folds,
        describe_features(info.node_features),
        describe_features(info.edge_features),
        info.task,
        info.num_outputs,
        info.metric,
        info.protocols,
        info.source,
        None if row is None else row.graphs,
        None if row is None else row.nodes,
        None if row is None else row.edges,
        "" if row is None else row.note,
    )


def agrees(measured: float, printed: str) -> bool:
    """Return whether a measured number, rounded or truncated, is the printed number.

    Args:
        measured: The measured number.
        printed: The number as printed in the paper; its digits set the tolerance.

    >>> agrees(23.155, "23.1"), agrees(39.0575, "39.06"), agrees(25.64, "14.29")
    (True, True, False)
    """
    digits = len(printed.partition(".")[2])
    return abs(measured - float(printed)) < 10.0**-digits


def describe_features(features: Features | None) -> str:
    """Return the type and size of features as text; an empty string for None.

    >>> describe_features(Categorical((28,)))
    'categorical 28'
    """
    if features is None:
        return ""
    if isinstance(features, Categorical):
        return f"categorical {' '.join(map(str, features.sizes))}"
    return f"continuous {features.channels}"


def whereabouts(entry: Entry, data_dir: str | os.PathLike[str] | None = None) -> str:
    """Return how `load_dataset` would obtain a data set on this machine.

    Args:
        entry: The data set's entry in `DATASETS`.
        data_dir: Folder that is searched first for the data file; None = only the
            default folders are searched.

    Returns:
        `at hand` if the data file is found, else the `origin` of the entry: `built` (by
        a deterministic construction), `generated` (at random), `download`, or
        `file only` (loading fails without the file).
    """
    found = entry.file_name and find_file(entry.file_name, data_dir)
    return "at hand" if found else entry.origin


def _parts(dataset: Dataset) -> str:
    if dataset.split is None:
        return str(len(dataset.store))
    counts = torch.bincount(dataset.split, minlength=3).tolist()
    return " / ".join(map(str, counts))


def _mean(values: Tensor, dataset: Dataset, trained: bool) -> float:
    if trained and dataset.split is not None:
        values = values[dataset.split == 0]
    return float(values.double().mean()) if values.numel() else 0.0


STATES_PER_COPY, STATES_PER_EDGE_COPY = 15, 1
"""Numbers of vectors that one GIN-AK+ layer saves for backward: for each node and for
each edge of every rooted subgraph.

Measured from the tensors that autograd saves on the data sets ZINC, EXP, counting and
IMDB-B. There, `SubgraphSizes.training_bytes` is accurate to 6 %."""
FLOAT_BYTES = 4
"""Bytes of a float32."""
CHUNK = 64
"""Number of graphs whose rooted subgraphs are extracted at a time."""


@dataclass(frozen=True, eq=False)
class SubgraphSizes:
    """Sizes of the rooted subgraphs of g graphs.

    A node copy is a node as seen in one rooted subgraph, and an edge copy is an edge as
    seen in one rooted subgraph.
    """

    nodes: Tensor
    """[g], int64: number of nodes of each graph, which is also its number of rooted
    subgraphs."""
    copies: Tensor
    """[g], int64: number of node copies of each graph: the sum of the numbers of nodes
    of its rooted subgraphs."""
    edge_copies: Tensor
    """[g], int64: number of edge copies of each graph: the sum of the numbers of edges
    of its rooted subgraphs."""

    @staticmethod
    def join(parts: Sequence[SubgraphSizes]) -> SubgraphSizes:
        """Return the sizes of several groups of graphs, one group after the other."""
        return SubgraphSizes(
            torch.cat([part.nodes for part in parts]),
            torch.cat([part.copies for part in parts]),
            torch.cat([part.edge_copies for part in parts]),
        )

    def training_bytes(
        self,
        batch_size: int,
        num_layers: int = 6,
        channels: int = 128,
        hop_channels: int = 16,
    ) -> float:
        r"""Estimate the memory in bytes that one training step of GIN-AK+ needs.

        The estimate is

        $$4 L (d + h)\,b\,(15\,\bar m + \bar f)$$

        for L GNN-AK layers, each with a base GNN of one layer. On average, the rooted
        subgraphs of one graph have $\bar m$ nodes and $\bar f$ edges in total. Memory
        for weights, optimiser state and the data is not included.

        Args:
            batch_size: Number of graphs in a batch, b.
            num_layers: Number of GNN-AK layers, L.
            channels: Width of the states, d.
            hop_channels: Width of the embedding of the distance to the root, h.
        """
        states = (
            STATES_PER_COPY * self.copies.double().mean()
            + STATES_PER_EDGE_COPY * self.edge_copies.double().mean()
        )
        return float(
            FLOAT_BYTES * num_layers * (channels + hop_channels) * batch_size * states
        )


def subgraph_sizes(
    store: GraphStore, extractor: Extractor, generator: torch.Generator | None = None
) -> Iterator[SubgraphSizes]:
    """Extract rooted subgraphs, `CHUNK` graphs at a time, and count nodes and edges.

    Args:
        store: The graphs.
        extractor: Extracts the rooted subgraphs: egonets or random walks.
        generator: Random number generator for random walks.

    Yields:
        The sizes of the rooted subgraphs of the next `CHUNK` graphs, in order.
    """
    for first in range(0, len(store), CHUNK):
        chunk = store.subset(slice(first, min(first + CHUNK, len(store))))
        yield _measure(chunk, extractor, generator)


def _measure(
    store: GraphStore, extractor: Extractor, generator: torch.Generator | None
) -> SubgraphSizes:
    """Extract the rooted subgraphs of all graphs of a store, and count nodes and edges.

    If all graphs together have too many copies for the memory, the store is halved.
    """
    batch = store.union()
    try:
        found = extract(
            extractor, batch.edge_index, batch.num_nodes, generator, batch.batch
        )
    except SizeError:
        if len(store) == 1:
            raise
        half = len(store) // 2
        halves = store.subset(slice(0, half)), store.subset(slice(half, len(store)))
        return SubgraphSizes.join([_measure(h, extractor, generator) for h in halves])
    graph = batch.batch.index_select(0, found.node)
    at_edge = graph.index_select(0, found.edge_index[0])
    return SubgraphSizes(
        batch.ptr.diff(),
        counts_of(graph, batch.num_graphs),
        counts_of(at_edge, batch.num_graphs),
    )


SAMPLE = 64
"""Number of graphs whose rooted subgraphs are measured."""


def sampled_sizes(store: GraphStore, extractor: Extractor) -> SubgraphSizes | None:
    """Measure the rooted subgraphs of some graphs, evenly spaced in a store.

    Returns:
        The sizes; None if there are no graphs, or if the subgraphs of one graph alone
        do not fit into memory, which the extractor will refuse with an error.
    """
    if not len(store):
        return None
    count = min(SAMPLE, len(store))
    chosen = torch.linspace(0, len(store) - 1, count).round().long()
    generator = torch.Generator().manual_seed(0)
    given = (store.subset(chosen), without_encodings(extractor), generator)
    try:
        parts = list(subgraph_sizes(*given))
    except SizeError:
        return None
    return SubgraphSizes.join(parts)


def memory_advice(needed: float, batch_size: int, device: torch.device) -> str | None:
    """Say what to do if a training step needs more memory than is free.

    Args:
        needed: Estimated memory of a training step, in bytes.
        batch_size: Number of graphs per step.
        device: The device of the network.

    Returns:
        A sentence; None if the memory suffices, or is not known.
    """
    free = free_bytes(device)
    if free is None or needed <= free:
        return None
    fitting = int(batch_size * free / needed)
    lower = "fewer layers, channels or hops"
    advice = f"a batch size of {fitting}, or {lower}" if fitting > 1 else lower
    return (
        f"a training step on {batch_size} graphs needs about {needed / 2**30:.1f} GiB, "
        f"but {free / 2**30:.1f} GiB are free; use {advice}, or a model with the "
        "suffix -s, which trains on a sample of the subgraphs."
    )
