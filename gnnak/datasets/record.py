"""A data set as training reads it: graphs, what is asked of them, how they split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs import GraphFile, GraphStore
from gnnak.nn.features import Features

Task = Literal["regression", "classification", "multilabel"]
"""What is predicted: numbers, one class of several, or several yes-or-no answers (one
column each; an answer that is not known is NaN)."""
Metric = Literal[
    "mae", "log10-mse", "accuracy", "class-recall", "roc-auc", "average-precision"
]
"""How a data set is scored; `class-recall` is the mean of the recalls of the classes,
the last two are means over the columns that have both answers."""
Protocol = Literal["split", "published", "held-out"]
"""`split`: train, validation and test are given. `published`: what the published runs
do where that is not it. `held-out`: the same question with test graphs never seen."""

LOWER_IS_BETTER: tuple[Metric, ...] = ("mae", "log10-mse")


@dataclass(frozen=True)
class DatasetInfo:
    """What is asked of a data set, and what its features are."""

    name: str
    """The name it goes by here, such as `zinc`."""
    title: str
    """The name it goes by in the paper, such as `ZINC-12K`."""
    task: Task
    """What is predicted."""
    metric: Metric
    """How predictions are scored."""
    num_outputs: int
    """Numbers regressed, classes, or columns of yes-or-no answers."""
    node_features: Features
    """Kind and sizes of the node features."""
    edge_features: Features | None
    """Kind and sizes of the edge features; None if there are none."""
    source: str
    """Where the graphs are from: a file name, `generated (seed 0)`, or `downloaded`."""
    protocols: tuple[Protocol, ...] = ("split",)
    """Ways to train and score, the default first."""
    node_task: bool = False
    """Whether every node has a target, instead of every graph."""
    published_in_folds: bool = False
    """Whether the published protocol has the folds (as the TU sets do); where not, it
    trains and scores on all graphs."""
    batch_statistics: bool = False
    """Whether the published protocol scores with the statistics of the batch."""

    @property
    def lower_is_better(self) -> bool:
        """Whether the metric is an error."""
        return self.metric in LOWER_IS_BETTER


@dataclass(frozen=True, eq=False)
class Dataset:
    """Graphs with targets, what is asked of them, and how they are split."""

    info: DatasetInfo
    """What is asked."""
    store: GraphStore
    """The graphs; `x` is never None, `y` float32 for regression and multilabel
    ([g] or [g, columns]) and int64 for classification."""
    split: Tensor | None = None
    """[g], int64: 0 train, 1 validation, 2 test; None if there is none."""
    folds: Tensor | None = None
    """[k, g], int64, one row a fold: 0 train, 1 test, -1 not used; None if none."""

    @property
    def num_folds(self) -> int:
        """Number of folds, k; 0 if there are none."""
        return 0 if self.folds is None else self.folds.size(0)

    def subset(self, indices: Tensor) -> Dataset:
        """These graphs alone, with their part of the split and of the folds."""
        indices = indices.to(torch.long)
        return Dataset(
            self.info,
            self.store.subset(indices),
            None if self.split is None else self.split[indices],
            None if self.folds is None else self.folds[:, indices],
        )

    def check(self) -> Dataset:
        """Verify every sentence of the fields above and return the data set.

        Raises:
            GraphError: In one sentence, the first thing that is wrong.
        """
        GraphFile(self.store, self.split, self.folds).check()
        name, store, y = self.info.name, self.store, self.store.y
        if store.x is None or y is None:
            raise GraphError(f"{name} lacks x or y; give every graph both.")
        if store.node_targets != self.info.node_task:
            owner = "node" if self.info.node_task else "graph"
            raise GraphError(f"{name} asks for one target for every {owner} in y.")
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
