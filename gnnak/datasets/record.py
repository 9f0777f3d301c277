"""The dataclasses `Dataset` (graphs with targets and splits) and `DatasetInfo`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from gnnak.datasets.cache import Request
from gnnak.datasets.metric_names import Task, lower_is_better
from gnnak.errors import GraphError
from gnnak.graphs import GraphFile, GraphStore
from gnnak.nn.features import Features

Protocol = Literal["split", "published", "held-out"]
"""How a data set is split and scored.

- `split`: the data set has fixed training, validation and test graphs.
- `published`: as in the paper's code. Either one fold is used for validation and test,
  or all graphs are used for training, validation and test.
- `held-out`: training, validation and test graphs are in different folds. A data set
  without folds is split as in `published`, but BatchNorm is always in evaluation mode
  when the model is scored.
"""


@dataclass(frozen=True)
class Scaling:
    """Mean and standard deviation of each regression target in the training graphs.

    The network predicts normalised targets, `(target - mean) / deviation`.
    """

    mean: tuple[float, ...]
    """The mean of each target."""
    deviation: tuple[float, ...]
    """The standard deviation of each target; 1 where the target is constant."""


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a data set: its task, metric, features and protocols.

    A protocol is a way to split and score the data set.
    """

    name: str
    """Name of the data set in gnnak, for example `zinc`."""
    title: str
    """Name of the data set in the paper, for example `ZINC-12K`."""
    task: Task
    """The task: `regression`, `classification` or `multilabel`."""
    metric: str
    """The metric that predictions are scored with; see `gnnak.datasets.metric_names`.
    """
    num_outputs: int
    """Number of regression targets, classes, or binary labels."""
    node_features: Features
    """Whether the node features are categorical or continuous, and how many categories
    or channels they have."""
    edge_features: Features | None
    """Whether the edge features are categorical or continuous, and how many categories
    or channels they have; None if edges have no features."""
    source: str
    """Where the graphs come from: a file name, `generated (seed 0)`, `downloaded`."""
    protocols: tuple[Protocol, ...] = ("split",)
    """Protocols (ways to split and score the data set) to choose from, the default
    first."""
    node_task: bool = False
    """Whether each node has a target, instead of each graph."""
    published_in_folds: bool = False
    """What the protocol `published` does. True: it cross-validates over the folds, as
    for the TU data sets. False: it trains and scores on all graphs."""
    batch_statistics: bool = False
    """Whether BatchNorm normalises with the statistics of the batch, as in training,
    when the protocol `published` scores the model."""
    targets: tuple[str, ...] = ()
    """Names of the targets, such as the columns of a table; empty = not known."""
    classes: tuple[str, ...] = ()
    """Names of the classes of a classification task; empty = the classes are numbers.
    """
    scaling: Scaling | None = None
    """How regression targets are normalised in training; None = not at all."""
    featurizer: str | None = None
    """How SMILES strings of own data become graphs: `ogb`, the features of the Open
    Graph Benchmark. None if the data are not SMILES strings."""
    skipped: tuple[str, ...] = ()
    """The rows of own data that were left out, with the reasons; of more than 100 only
    the first ones."""
    own_data: bool = False
    """Whether the data are the user's own, and not one of gnnak's data sets."""

    @property
    def lower_is_better(self) -> bool:
        """Whether lower values of the metric are better, as for errors."""
        return lower_is_better(self.metric)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Graphs with targets, the description of the task, and the splits."""

    info: DatasetInfo
    """Task, metric, features and protocols (ways to split and score the data set)."""
    store: GraphStore
    """The g graphs. The node features `x` and the targets `y` are not None. `y` has
    shape [g] or [g, num_outputs], or a row per node instead of per graph if
    `info.node_task`. The dtype of `y` is int64 for classification and float32 for
    regression and multilabel."""
    split: Tensor | None = None
    """The part of each of the g graphs, [g], int64: 0 train, 1 validation, 2 test; None
    if there is no split."""
    folds: Tensor | None = None
    """The role of each of the g graphs in each of the k folds, [k, g], int64: 0 train,
    1 test, -1 not used; None if there are no folds."""

    @property
    def num_folds(self) -> int:
        """Number of cross-validation folds, k; 0 if the data set has no folds."""
        return 0 if self.folds is None else self.folds.size(0)

    def subset(self, indices: Tensor) -> Dataset:
        """Return a data set of the graphs with these indices.

        Each graph stays in the same part of the split and in the same folds.
        """
        indices = indices.to(torch.long)
        return Dataset(
            self.info,
            self.store.subset(indices),
            None if self.split is None else self.split[indices],
            None if self.folds is None else self.folds[:, indices],
        )

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


class Published(NamedTuple):
    """A row of the paper's table of data set statistics, as printed."""

    graphs: str
    """Number of graphs; written as `train / validation / test` if there is a split."""
    nodes: str
    """Mean number of nodes per graph, as printed in the paper."""
    edges: str
    """Mean number of edges per graph, as printed in the paper."""
    once: bool = False
    """Whether `edges` counts an undirected edge as one edge instead of two."""
    over_training: tuple[str, ...] = ()
    """Which of `"nodes"` and `"edges"` are means over the training graphs only; empty
    if both means are over all graphs."""
    note: str = ""
    """Known reason why the paper's numbers differ from the measured ones; empty if no
    reason is known."""


@dataclass(frozen=True)
class Entry:
    """Registry entry of one data set: its task, loader and statistics in the paper."""

    info: DatasetInfo
    """Name, task, metric and protocols (ways to split and score the data set); loading
    fills in features and source."""
    description: str
    """One-line description for `gnnak datasets list`."""
    file_name: str | None
    """Name of the data file; None if the data set is always generated."""
    origin: str
    """How the graphs are obtained if the data file is not found: `built` (by a
    deterministic construction), `generated` (at random) or `download`. `file only`:
    loading fails without the file."""
    load: Callable[[DatasetInfo, Request], Dataset]
    """Function that loads the data set, given `info` and the user's options."""
    published: Published | None = None
    """The row of the paper's table of data sets; None if the table does not have this
    data set."""
    targets: tuple[str, ...] = ()
    """Names of the targets that a user can choose from, the default first; empty if the
    data set has only one target."""

    @property
    def name(self) -> str:
        """Name of the data set in gnnak."""
        return self.info.name
