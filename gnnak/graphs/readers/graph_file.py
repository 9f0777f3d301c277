"""`GraphFile`: the content of a data set file, that is, graphs and their splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs.store import GraphStore
from gnnak.typing import check_choice

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True, eq=False)
class GraphFile:
    """The content of a data set file: graphs, their splits, and names of categories.

    In shapes, g is the number of graphs and k the number of cross-validation folds.
    """

    store: GraphStore
    """The graphs; may be empty."""
    split: Tensor | None = None
    """[g], int64: the part that each graph is in, 0 train, 1 validation, 2 test; None
    if the file has no split."""
    folds: Tensor | None = None
    """[k, g], int64: the part that each graph is in, one row per cross-validation fold:
    0 train, 1 test, -1 not used. None if the file has no folds."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Lists of category names, by key. Keys end in "_names". For example,
    `names["atom_names"][3]` is the name of atom type 3."""

    def indices(self, part: Part) -> Tensor:
        """Return the positions of the graphs in one part of the split, sorted.

        Args:
            part: "train", "validation" or "test".

        Raises:
            GraphError: If these graphs have no split.
        """
        check_choice("part", part, PARTS)
        if self.split is None:
            raise GraphError("these graphs have no split; choose indices yourself.")
        return (self.split == PARTS.index(part)).nonzero().flatten()

    def fold(self, index: int) -> tuple[Tensor, Tensor]:
        """Return the positions of the training and of the test graphs of a fold.

        Args:
            index: Number of the cross-validation fold, from 0.

        Raises:
            GraphError: If the fold does not exist.
        """
        count = 0 if self.folds is None else self.folds.size(0)
        if self.folds is None or not 0 <= index < count:
            raise GraphError(f"there is no fold {index}; these graphs have {count}.")
        train, test = ((self.folds[index] == role).nonzero() for role in (0, 1))
        return train.flatten(), test.flatten()

    def check(self) -> GraphFile:
        """Check that every field is as documented above and return this object.

        Raises:
            GraphError: If a field is not as documented; the message names the first
                such field.
        """
        self.store.check()
        size = len(self.store)
        if self.split is not None:
            _check_codes("split", self.split, f"[{size}]", 0, 2)
            if list(self.split.shape) != [size]:
                raise GraphError(
                    f"split has shape {list(self.split.shape)}; give [{size}], one "
                    "entry for every graph."
                )
        if self.folds is not None:
            _check_codes("folds", self.folds, f"[k, {size}]", -1, 1)
            if self.folds.dim() != 2 or self.folds.size(1) != size:
                raise GraphError(
                    f"folds has shape {list(self.folds.shape)}; give [k, {size}], one "
                    "row for every fold."
                )
        for key in self.names:
            if not key.endswith("_names"):
                raise GraphError(
                    f"names has the key {key!r}; keys must end in '_names'."
                )
        return self


def _check_codes(name: str, value: object, shape: str, low: int, high: int) -> None:
    """Raise `GraphError` unless `value` is an int64 tensor with entries in low..high.

    `name` and `shape` (the expected shape) are only used in the error message.
    """
    if not isinstance(value, Tensor) or value.dtype != torch.long:
        raise GraphError(f"{name} must be an int64 tensor of shape {shape}.")
    wrong = value[(value < low) | (value > high)]
    if wrong.numel():
        raise GraphError(
            f"{name} holds {int(wrong[0])}; only {low} to {high} are valid codes."
        )
