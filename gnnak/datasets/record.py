"""`Dataset` (graphs with targets and splits), `DatasetInfo`, tasks and metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from gnnak.datasets.cache import Request
from gnnak.errors import GraphError, OptionError
from gnnak.graphs import GraphFile, GraphStore
from gnnak.graphs.readers.rows import FeatureUse
from gnnak.nn.features import Features
from gnnak.typing import check_known

Task = Literal["regression", "classification", "multilabel"]
"""Task of a data set; `multilabel` targets are 0, 1, or NaN if unknown."""


class MetricKind(NamedTuple):
    """How a metric is computed, and the tasks that it can score."""

    torchmetrics: str
    """Name of the torchmetrics class, without the prefix `Binary` or `Multiclass`."""
    tasks: tuple[Task, ...]
    lower: bool = False
    arguments: tuple[tuple[str, object], ...] = ()


NUMBERS: tuple[Task, ...] = ("regression",)
CLASSES: tuple[Task, ...] = ("classification", "multilabel")
METRICS: dict[str, MetricKind] = {
    "mae": MetricKind("MeanAbsoluteError", NUMBERS, lower=True),
    "std-mae": MetricKind("MeanAbsoluteError", NUMBERS, lower=True),
    "mse": MetricKind("MeanSquaredError", NUMBERS, lower=True),
    "rmse": MetricKind("MeanSquaredError", NUMBERS, True, (("squared", False),)),
    "log10-mse": MetricKind("MeanSquaredError", NUMBERS, lower=True),
    "r2": MetricKind("R2Score", NUMBERS),
    "explained-variance": MetricKind("ExplainedVariance", NUMBERS),
    "pearson": MetricKind("PearsonCorrCoef", NUMBERS),
    "spearman": MetricKind("SpearmanCorrCoef", NUMBERS),
    "kendall": MetricKind("KendallRankCorrCoef", NUMBERS),
    "concordance": MetricKind("ConcordanceCorrCoef", NUMBERS),
    "mape": MetricKind("MeanAbsolutePercentageError", NUMBERS, lower=True),
    "accuracy": MetricKind("Accuracy", CLASSES),
    "class-recall": MetricKind("Recall", CLASSES),
    "precision": MetricKind("Precision", CLASSES),
    "specificity": MetricKind("Specificity", CLASSES),
    "f1": MetricKind("F1Score", CLASSES),
    "mcc": MetricKind("MatthewsCorrCoef", CLASSES),
    "kappa": MetricKind("CohenKappa", CLASSES),
    "calibration-error": MetricKind("CalibrationError", CLASSES, lower=True),
    "roc-auc": MetricKind("AUROC", CLASSES),
    "average-precision": MetricKind("AveragePrecision", CLASSES),
}
"""The metrics by name. `class-recall` is the recall averaged over classes. With several
targets or labels, the score is the mean over them. Labels that are always 0 or always 1
are skipped. `std-mae` divides the error of each target by its standard deviation in the
training set."""
DEFAULTS: dict[Task, str] = {
    "regression": "mae",
    "classification": "accuracy",
    "multilabel": "roc-auc",
}


def metrics_for(task: Task) -> tuple[str, ...]:
    return tuple(name for name, kind in METRICS.items() if task in kind.tasks)


def check_metric(name: str, task: Task) -> None:
    check_known("metric", name, METRICS)
    if task not in METRICS[name].tasks:
        told = f"metric is {name!r}, which does not fit a {task} task"
        raise OptionError(f"{told}; use one of: {', '.join(metrics_for(task))}.")


def lower_is_better(name: str) -> bool:
    return METRICS[name].lower


Protocol = Literal["split", "published", "held-out"]
"""How a data set is split and scored.

- `split`: by fixed sets of training, validation and test graphs.
- `published`: as in the paper's code. Either one fold is both the validation and the
  test set, or all graphs are in all three sets.
- `held-out`: by different folds for training, validation and testing. Without folds,
  all graphs are in all three sets, and BatchNorm is in evaluation mode in scoring.
"""


@dataclass(frozen=True)
class Scaling:
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    """The standard deviation of each target; 1 if the target is constant."""


def target_scaling(y: Tensor) -> Scaling:
    """Return mean and deviation of each column of `y`, [rows, targets]; ignore NaN."""
    wide = y.double()
    mean = wide.nanmean(dim=0).nan_to_num()
    variance = (wide - mean).square().nanmean(dim=0).nan_to_num()
    deviation = variance.sqrt()
    # A constant target has a deviation of 0, up to rounding.
    constant = deviation <= 1e-9 * mean.abs()
    deviation = torch.where(constant, 1.0, deviation)
    return Scaling(tuple(mean.tolist()), tuple(deviation.tolist()))


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a data set: its task, metric, features and protocols."""

    name: str
    """Name of the data set in gnnak, for example `zinc`."""
    title: str
    """Name of the data set in the paper, for example `ZINC-12K`."""
    task: Task
    """`regression`, `classification` or `multilabel`."""
    metric: str
    """Name of the metric that scores predictions, such as `mae`."""
    num_outputs: int
    """Number of regression targets, classes, or binary labels."""
    node_features: Features
    """Type of the node features, and their numbers of categories or channels."""
    edge_features: Features | None
    """Like `node_features`; None if edges have no features."""
    source: str
    """Where the graphs come from: a file name, `generated (seed 0)`, `downloaded`."""
    protocols: tuple[Protocol, ...] = ("split",)
    """The ways to split and score the data set, the default first."""
    node_task: bool = False
    """Whether each node has a target, instead of each graph."""
    published_in_folds: bool = False
    """Whether the protocol `published` cross-validates over the folds, as for TU data
    sets. If False, it trains and scores on all graphs."""
    batch_statistics: bool = False
    """Whether BatchNorm uses batch statistics in scoring with protocol `published`."""
    targets: tuple[str, ...] = ()
    """Names of the targets, such as columns of a table; empty if they have no names."""
    classes: tuple[str, ...] = ()
    """Names of the classes; empty if classes are only numbered."""
    scaling: Scaling | None = None
    """Normalisation of regression targets in training; None if there is none."""
    featurizer: str | None = None
    """Name of the featurizer for the user's SMILES strings, such as `ogb` (Open Graph
    Benchmark); None for other data."""
    skipped: tuple[str, ...] = ()
    """Rows of the user's data that were left out, with reasons; at most 100 rows."""
    own_data: bool = False
    """Whether the data are the user's own, and not one of gnnak's data sets."""
    one_graph: bool = False
    """Whether the data are one graph, whose nodes are split for training and test.
    `node_task` is then True."""

    @property
    def lower_is_better(self) -> bool:
        """Whether lower values of the metric are better, as for errors."""
        return lower_is_better(self.metric)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes; if they have none, their numbers as texts."""
        return self.classes or tuple(str(i) for i in range(self.num_outputs))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Graphs with targets, the description of the task, and the splits."""

    info: DatasetInfo
    store: GraphStore
    """The g graphs, all with node features `x` and targets `y`. `y` has shape [g] or
    [g, num_outputs], or one row per node if `info.node_task`. It is int64 for
    classification, else float32."""
    split: Tensor | None = None
    """The part of each graph, [g], int64: 0 train, 1 validation, 2 test; None without a
    split. If `info.one_graph`, the part of each node, [n], or [splits, n] for several
    splits, with -1 for unused nodes."""
    folds: Tensor | None = None
    """The part of each graph in each fold, [folds, g], int64: 0 train, 1 test, -1 not
    used; None without folds."""
    features: FeatureUse | None = None
    """Names of features and of unused attributes, if the data are the user's own."""
    one_way: bool = False
    """Whether all edges of the user's PyG data come in one direction only."""

    @property
    def num_folds(self) -> int:
        """Number of folds, or of splits of one graph's nodes; 0 if there are none."""
        if self.split is not None and self.split.dim() == 2:
            return self.split.size(0)
        return 0 if self.folds is None else self.folds.size(0)

    def graphs_of(self, positions: Tensor) -> GraphStore:
        """Return the graphs at `positions`, or the whole graph if `info.one_graph`."""
        return self.store if self.info.one_graph else self.store.subset(positions)

    def targets_of(self, positions: Tensor) -> Tensor:
        """Return targets of nodes (if `info.one_graph`) or graphs at `positions`."""
        y = self.store.y if self.info.one_graph else self.store.subset(positions).y
        assert y is not None
        return y[positions] if self.info.one_graph else y

    def subset(self, indices: Tensor) -> Dataset:
        """Return the selected graphs, with their parts of the split and folds."""
        indices = indices.to(torch.long)
        split = None if self.split is None else self.split[indices]
        folds = None if self.folds is None else self.folds[:, indices]
        return replace(self, store=self.store.subset(indices), split=split, folds=folds)

    def check(self) -> Dataset:
        """Check shapes, dtypes and ranges of all fields and return the data set itself.

        Raises:
            GraphError: If a field is wrong; the message names the field.
        """
        GraphFile(self.store, self.split, self.folds).check()
        name, store, y = self.info.name, self.store, self.store.y
        if store.x is None or y is None:
            raise GraphError(f"{name} lacks x or y; give every graph both.")
        if store.node_targets != self.info.node_task:
            owner = "node" if self.info.node_task else "graph"
            raise GraphError(f"{name} needs one target per {owner} in y.")
        if self.info.one_graph and len(store) != 1:
            raise GraphError(f"{name} has {len(store)} graphs; give one.")
        whole = self.info.task == "classification"
        if y.dtype != (torch.long if whole else torch.float):
            wanted = "int64" if whole else "float32"
            raise GraphError(f"y of {name} has dtype {y.dtype}; give {wanted}.")
        columns = 1 if y.dim() == 1 else y.size(1)
        if not whole and columns != self.info.num_outputs:
            told = f"y of {name} has {columns} columns"
            raise GraphError(f"{told}; give {self.info.num_outputs}.")
        if whole and y.numel() and not 0 <= y.min() <= y.max() < self.info.num_outputs:
            told = f"y of {name} lies in {int(y.min())}..{int(y.max())}; number the"
            raise GraphError(f"{told} classes 0 to {self.info.num_outputs - 1}.")
        return self


class Published(NamedTuple):
    """A row of the paper's table of data set statistics, as printed."""

    graphs: str | None
    """Number of graphs; `train / validation / test` if there is a split."""
    nodes: str | None
    """Mean number of nodes per graph."""
    edges: str | None
    """Mean number of edges per graph."""
    once: bool = False
    """Whether `edges` counts an undirected edge as one edge instead of two."""
    over_training: tuple[str, ...] = ()
    """Which of `"nodes"` and `"edges"` are means over the training graphs only."""
    note: str = ""
    """Why the paper's numbers differ from the measured ones; "" if not known."""


@dataclass(frozen=True)
class Entry:
    """Registry entry of one data set: its task, loader and statistics in the paper."""

    info: DatasetInfo
    """Name, task, metric and protocols; loading adds the features and the source."""
    description: str
    """One-line description for `gnnak datasets list`."""
    file_name: str | None
    """Name of the data file; None if the data set is always generated."""
    origin: str
    """Where graphs come from if no data file is found: `built` (by a fixed rule),
    `generated` (at random), `download`, `package` (an installed one of PyPI), or
    `file only` (an error is raised)."""
    load: Callable[[DatasetInfo, Request], Dataset]
    """Loads the data set from `info` and the user's options."""
    published: Published | None = None
    """Statistics in the paper; None if the paper does not have this data set."""
    targets: tuple[str, ...] = ()
    """Names of the targets, the default first; empty if there is only one target."""
    joint_targets: bool = False
    """Whether one network can predict several targets, as in `target="mu,alpha"`."""

    @property
    def name(self) -> str:
        """Name of the data set in gnnak."""
        return self.info.name
