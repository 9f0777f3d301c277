"""Compute the statistics of a data set and compare them with the paper's table."""

import os
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from gnnak.datasets.entry import Entry
from gnnak.datasets.finding import find_file
from gnnak.datasets.record import Dataset
from gnnak.nn.features import Categorical, Features, OneHot


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
    """Type and size of the node features, for example `categorical 28` or `one-hot 28`
    for 28 categories."""
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
    >>> describe_features(OneHot((28,)))
    'one-hot 28'
    """
    if features is None:
        return ""
    if isinstance(features, Categorical):
        kind = "one-hot" if isinstance(features, OneHot) else "categorical"
        return f"{kind} {' '.join(map(str, features.sizes))}"
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
