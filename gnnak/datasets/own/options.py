"""`OwnData`: where the user's own data are, and how they are read and split."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gnnak.errors import OptionError, kind_of
from gnnak.typing import check_choice, check_count

SPLITS = ("random", "scaffold", "files")
"""Values of `OwnData.split`, besides `column:NAME`."""
COLUMN = "column:"
TASKS = ("regression", "classification", "multilabel")
TASK_NAMES = {"binary": "classification", "multiclass": "classification"}
"""Aliases that a user may write for a task."""


@dataclass(frozen=True)
class OwnData:
    """The user's own data: files, columns, task, metric and split."""

    path: str | None = None
    """The file or folder; None for graphs in a Python list or a data set of gnnak."""
    smiles: str | None = None
    """The column with SMILES strings; if None, one with a name such as `smiles`."""
    targets: tuple[str, ...] = ()
    """The columns, graph attributes or node attributes to predict. If empty: all
    columns of numbers in the table `labels`, if it is given; else, for molecules, the
    only column of numbers; for other graphs, their field `y`."""
    labels: str | None = None
    """A table with the targets, one row per graph; if None, `path` has the targets."""
    task: str | None = None
    """`regression`, `classification` or `multilabel`; if None, the targets decide."""
    metric: str | None = None
    """The metric; if None, the default metric of the task."""
    split: str | None = None
    """`random`, `scaffold`, `files` or `column:NAME`. If None, the split that is stored
    in the file; if the file has no split, a random one."""
    validation: str | None = None
    """The file with the validation graphs, if `split` is `files`."""
    test: str | None = None
    """The file with the test graphs, if `split` is `files`."""
    folds: int | None = None
    """Number of folds; if None, there is no cross-validation."""
    skip_bad: bool = False
    """Whether rows that cannot be used are left out; if False, they raise an error."""
    node_attr: tuple[str, ...] = ()
    """Names of node attributes used as features; if empty, the one named `x`."""
    edge_attr: tuple[str, ...] = ()
    """Names of edge attributes used as features; if empty, one named `edge_attr`."""
    graphs: int | None = None
    """Number of graphs to use, from the first one on; if None, all graphs."""

    def __post_init__(self) -> None:
        for name in ("task", "metric", "split"):
            value = getattr(self, name)
            if isinstance(value, str) and not value.lower().startswith(COLUMN):
                object.__setattr__(self, name, value.lower())
        if self.task is not None:
            task = TASK_NAMES.get(self.task, self.task)
            check_choice("task", task, TASKS)
            object.__setattr__(self, "task", task)
        if self.split is not None and not self.split_column:
            check_choice("split", self.split, (*SPLITS, "column:NAME"))
        for place, name in enumerate(self.targets):
            if name in self.targets[:place]:
                raise OptionError(f"the target {name} is named twice; name it once.")
        if self.labels is None and self.split_column in self.targets:
            told = f"the target {self.split_column} is the column that splits the data"
            raise OptionError(f"{told}; name another target, or another --split.")
        files = [name for name in ("validation", "test") if getattr(self, name)]
        if files and self.split not in (None, "files"):
            told = f"split is {self.split!r}, but a {files[0]} file is given"
            raise OptionError(f"{told}; leave out one of both.")
        if self.folds is not None:
            check_count("folds", self.folds, least=3)
            if self.split_column is not None:
                told = f"folds cannot be combined with split {self.split!r}"
                raise OptionError(f"{told}; leave out one of both.")
        if self.graphs is not None:
            check_count("graphs", self.graphs, least=1)

    @property
    def split_column(self) -> str | None:
        """The NAME if `split` is `column:NAME`, else None."""
        if self.split is None or not self.split.lower().startswith(COLUMN):
            return None
        return self.split[len(COLUMN) :] or None


def as_names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    if given is None or isinstance(given, str):
        return () if given is None else (given,)
    names = tuple(given) if isinstance(given, Iterable) else (given,)
    if isinstance(given, Iterable) and all(isinstance(each, str) for each in names):
        return names
    raise OptionError(f"the name {given!r} is not a text; give a text or several.")


def as_path(name: str, given: Any) -> str | None:
    if given is None or isinstance(given, str | os.PathLike):
        return as_text(given)
    told = f"{name} is {kind_of(given)}; give the path of a table"
    raise OptionError(f"{told}, or targets as the second argument, y.")


def as_text(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)
