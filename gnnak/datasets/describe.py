"""A data set in figures, beside the figures the paper prints."""

import os
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from gnnak.datasets.entry import Entry
from gnnak.datasets.finding import find_file
from gnnak.datasets.record import Dataset
from gnnak.nn.features import Categorical, Features


@dataclass(frozen=True)
class Description:
    """What `gnnak datasets describe` tells of one data set."""

    name: str
    """The name it goes by here."""
    graphs: str
    """Number of graphs, by part where there is a split, as in the paper's table."""
    nodes: float
    """Mean number of nodes, over the graphs that the paper's mean is over."""
    edges: float
    """Mean number of edges, counted as the paper counts them for this data set."""
    over_training: tuple[str, ...]
    """Which of the two are over the training graphs alone, as in the paper."""
    edges_once: bool
    """Whether undirected edges count once; else both directions count."""
    folds: int
    """Number of folds; 0 if there are none."""
    node_features: str
    """Kind and sizes of the node features."""
    edge_features: str
    """Kind and sizes of the edge features; empty if there are none."""
    task: str
    """What is predicted."""
    outputs: int
    """Numbers, classes or columns predicted."""
    metric: str
    """How predictions are scored."""
    protocols: tuple[str, ...]
    """Ways to train and score, the default first."""
    source: str
    """Where the graphs are from."""
    paper_graphs: str | None
    """The paper's number of graphs; None if it has none."""
    paper_nodes: str | None
    """The paper's mean number of nodes, digits as printed."""
    paper_edges: str | None
    """The paper's mean number of edges, digits as printed."""
    note: str
    """Where the printed figure is known to mean something else."""

    def as_dict(self) -> dict[str, object]:
        """All of it, as JSON has it."""
        return asdict(self) | {
            "protocols": list(self.protocols),
            "over_training": list(self.over_training),
        }


def describe_dataset(entry: Entry, dataset: Dataset) -> Description:
    """Measure a data set; the entry has the paper's figures.

    Args:
        entry: The data set's entry in `DATASETS`.
        dataset: The data set as loaded.
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
    """Whether a figure is the printed one, whether that was rounded or cut off.

    >>> agrees(23.155, "23.1"), agrees(39.0575, "39.06"), agrees(25.64, "14.29")
    (True, True, False)
    """
    digits = len(printed.partition(".")[2])
    return abs(measured - float(printed)) < 10.0**-digits


def describe_features(features: Features | None) -> str:
    """Kind and sizes of features, in words; empty for None.

    >>> describe_features(Categorical((28,)))
    'categorical 28'
    """
    if features is None:
        return ""
    if isinstance(features, Categorical):
        return f"categorical {' '.join(map(str, features.sizes))}"
    return f"continuous {features.channels}"


def whereabouts(entry: Entry, data_dir: str | os.PathLike[str] | None = None) -> str:
    """Where a data set would come from now: the file's folder, or how it is made.

    Returns:
        `at hand`, `built`, `generated`, `download` or `file only`.
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
