"""The `Dataset` record: graphs with targets, the task, and the splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs import GraphFile, GraphStore
from gnnak.nn.features import Features

Task = Literal["regression", "classification", "multilabel"]
"""Kind of task: numbers, one class of several, or several binary labels (one column
each; NaN where the label is unknown)."""
Metric = Literal[
    "mae", "log10-mse", "accuracy", "class-recall", "roc-auc", "average-precision"
]
"""Name of the metric. `class-recall` is the recall averaged over classes; `roc-auc` and
`average-precision` are averaged over the label columns that contain both labels."""
Protocol = Literal["split", "published", "held-out"]
"""How a data set is divided for training and scoring. `split`: given training,
validation and test graphs. `published`: the protocol of the published results, which
may train or select models on test graphs. `held-out`: with folds, separate training,
validation and test graphs; without folds, as `published`, scored in evaluation mode."""

LOWER_IS_BETTER: tuple[Metric, ...] = ("mae", "log10-mse")
"""Metrics that are errors; all others are scores."""


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a data set: its task, metric, features and protocols."""

    name: str
    """Name of the data set in gnnak, for example `zinc`."""
    title: str
    """Name of the data set in the paper, for example `ZINC-12K`."""
    task: Task
    """Kind of task."""
    metric: Metric
    """The metric that predictions are scored with."""
    num_outputs: int
    """Number of regression targets, classes, or binary labels."""
    node_features: Features
    """Kind and sizes of the node features."""
    edge_features: Features | None
    """Kind and sizes of the edge features; None if there are none."""
    source: str
    """Where the graphs come from: a file name, `generated (seed 0)`, `downloaded`."""
    protocols: tuple[Protocol, ...] = ("split",)
    """Protocols that the data set supports, the default first."""
    node_task: bool = False
    """Whether the targets belong to nodes instead of graphs."""
    published_in_folds: bool = False
    """Whether the protocol `published` uses the folds (as for the TU data sets) instead
    of training and scoring on all graphs."""
    batch_statistics: bool = False
    """Whether the protocol `published` scores with BatchNorm in training mode, that is
    with the statistics of the batch."""

    @property
    def lower_is_better(self) -> bool:
        """Whether the metric is an error, so lower is better."""
        return self.metric in LOWER_IS_BETTER


@dataclass(frozen=True, eq=False)
class Dataset:
    """Graphs with targets, the description of the task, and the splits."""

    info: DatasetInfo
    """Task, metric, features and protocols."""
    store: GraphStore
    """The graphs. `x` and `y` are not None; `y` is int64 for classification and float32
    for regression and multilabel, [g] or [g, num_outputs]."""
    split: Tensor | None = None
    """[g], int64: 0 train, 1 validation, 2 test; None if there is no split."""
    folds: Tensor | None = None
    """[k, g], int64, one row per fold: 0 train, 1 test, -1 not used; None if there are
    no folds."""

    @property
    def num_folds(self) -> int:
        """Number of folds, k; 0 if there are none."""
        return 0 if self.folds is None else self.folds.size(0)

    def subset(self, indices: Tensor) -> Dataset:
        """Return the selected graphs with their entries of the split and the folds."""
        indices = indices.to(torch.long)
        return Dataset(
            self.info,
            self.store.subset(indices),
            None if self.split is None else self.split[indices],
            None if self.folds is None else self.folds[:, indices],
        )

    def check(self) -> Dataset:
        """Check that every field is as documented above and return the data set.

        Raises:
            GraphError: Names the first field that is wrong.
        """
        GraphFile(self.store, self.split, self.folds).check()
        name, store, y = self.info.name, self.store, self.store.y
        if store.x is None or y is None:
            raise GraphError(f"{name} lacks x or y; give every graph both.")
        if store.node_targets != self.info.node_task:
            owner = "node" if self.info.node_task else "graph"
            raise GraphError(f"{name} needs one target per {owner} in y.")
        whole = self.info.task == "classification"
        if y.dtype != (torch.long if whole else torch.float):
            wanted = "int64" if whole else "float32"
            raise GraphError(f"y of {name} has dtype {y.dtype}; give {wanted}.")
        columns = 1 if y.dim() == 1 else y.size(1)
        if not whole and columns != self.info.num_outputs:
            raise GraphError(
                f"y of {name} has {columns} columns; give {self.info.num_outputs}."
            )
        if whole and y.numel() and not 0 <= y.min() <= y.max() < self.info.num_outputs:
            raise GraphError(
                f"y of {name} lies in {int(y.min())}..{int(y.max())}; number the "
                f"classes 0 to {self.info.num_outputs - 1}."
            )
        return self
