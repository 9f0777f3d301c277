"""Two ways to cut a window into batches: as they are, and padded to one shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from gnnak.training.batches.items import ROWS, RealRows, Shape
from gnnak.training.batches.windows import Window


class Cutter(ABC):
    """Cuts one field after the other, each in all batches at once.

    Batches stand one after the other on every axis of a window, and what counts rows
    of an axis starts at 0 in each of them.
    """

    @abstractmethod
    def sizes(self, axis: str) -> Sequence[int]:
        """How many rows every batch has on an axis."""

    @abstractmethod
    def rows(
        self, value: Tensor, along: str, counts: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """The rows of a field that belong to each batch.

        Args:
            value: The field, [r, ...].
            along: What it has a row for.
            counts: What its values are numbers of; None for any others.
            padding: What padding rows hold, where `counts` is None.
        """

    @abstractmethod
    def ends(self, value: Tensor, along: str, counts: str) -> Sequence[Tensor]:
        """The same for both ends of edges, [2, r]."""

    @abstractmethod
    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """The pointers of each batch: for every key, where its rows start."""

    @abstractmethod
    def real(self) -> Sequence[RealRows | None]:
        """What is not padding."""


class Slices(Cutter):
    """Batches as they are, from number `since` on: slices, their offsets taken off.

    Args:
        window: The batches.
        since: The first that is wanted.
    """

    def __init__(self, window: Window, since: int = 0) -> None:
        self.starts = {axis: start[since:] for axis, start in window.starts.items()}
        self.first = {axis: start[since:] for axis, start in window.first.items()}

    def sizes(self, axis: str) -> list[int]:
        """Each its own."""
        return [end - begin for begin, end in pairwise(self.starts[axis])]

    def rows(
        self, value: Tensor, along: str, counts: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Slices, without padding."""
        sizes = self.sizes(along)
        part = value.narrow(0, self.starts[along][0], sum(sizes))
        if counts is not None:
            part = part - self._of_batch(self.first[counts], along)
        return part.split(sizes)

    def ends(self, value: Tensor, along: str, counts: str) -> Sequence[Tensor]:
        """Slices of columns."""
        sizes = self.sizes(along)
        part = value.narrow(1, self.starts[along][0], sum(sizes))
        return (part - self._of_batch(self.first[counts], along)).split(sizes, dim=1)

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Slices, each with the end of its last key."""
        sizes = [size + 1 for size in self.sizes(keys)]
        number = torch.arange(len(sizes), device=value.device)
        batch = self._of_batch(number, keys, more=1)
        key = torch.arange(sum(sizes), device=value.device) - batch
        found = value[key + self.starts[keys][0]] - self.first[rows][batch]
        return found.split(sizes)

    def real(self) -> Sequence[RealRows | None]:
        """Everything is."""
        return [None] * len(self.sizes("graphs"))

    def _of_batch(self, value: Tensor, along: str, more: int = 0) -> Tensor:
        """For every row on an axis, and `more` a batch, the value of its batch."""
        sizes = self.sizes(along)
        return value[: len(sizes)].repeat_interleave(
            self.first[along].diff() + more, output_size=sum(sizes) + more * len(sizes)
        )


class Padding(Cutter):
    """Batches padded to one shape, up to number `until`: rows of matrices.

    Padding rows stand behind the real ones and name padding rows alone, spread evenly
    over them and in their order: what is padding touches nothing that is real.

    Args:
        window: The batches.
        shape: Sizes to pad to.
        until: The first batch that is not wanted.
    """

    def __init__(self, window: Window, shape: Shape, until: int) -> None:
        self.shape = shape
        bounds = {a: first[: until + 1, None] for a, first in window.first.items()}
        self.first = {axis: bound[:-1] for axis, bound in bounds.items()}
        self.end = {axis: bound[1:] for axis, bound in bounds.items()}
        self.count = {axis: bound.diff(dim=0) for axis, bound in bounds.items()}
        self.place = {
            axis: torch.arange(getattr(shape, axis), device=window.batch.device)
            for axis in bounds
        }
        self.room = {axis: len(self.place[axis]) - self.count[axis] for axis in bounds}
        self.row = {axis: self._row(axis) for axis in window.axes}
        self.behind = {axis: self.place[axis] >= self.count[axis] for axis in bounds}

    def sizes(self, axis: str) -> list[int]:
        """All the same."""
        return [self.place[axis].numel()] * self.first[axis].numel()

    def rows(
        self, value: Tensor, along: str, counts: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Rows, and padding behind them."""
        return self._matrix(value, along, counts, padding).unbind()

    def ends(self, value: Tensor, along: str, counts: str) -> Sequence[Tensor]:
        """Edges; those that are padding are self loops."""
        both = [self._matrix(end, along, counts) for end in value]
        return torch.stack(both, dim=1).unbind()

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Padding rows have no key, but all padding nodes are in a graph, the last."""
        key = torch.arange(len(self.place[keys]) + 1, device=value.device)
        found = value[torch.minimum(self.first[keys] + key, self.end[keys])]
        found -= self.first[rows]
        if keys == "graphs":
            found[:, -1] = self.shape.nodes
        return found.unbind()

    def real(self) -> Sequence[RealRows]:
        """The counts of every batch."""
        counts = torch.cat([self.count[axis] for axis in ROWS], dim=1)
        return [RealRows(self.shape, rows) for rows in counts]

    def _matrix(
        self, value: Tensor, along: str, counts: str | None, padding: int = 0
    ) -> Tensor:
        """[b, r, ...]: the rows of each batch, padded."""
        if not value.size(0):
            value = value.new_zeros(1, *value.shape[1:])
        found, behind = value[self.row[along]], self.behind[along]
        if counts is None:
            behind = behind.view(*behind.shape, *[1] * (value.dim() - 1))
            return found.masked_fill_(behind, padding)
        found -= self.first[counts]
        return torch.where(behind, self._spread(along, counts), found, out=found)

    def _row(self, axis: str) -> Tensor:
        """[b, r]: which row of the window each is; any, for padding."""
        last = self.end[axis].clamp(min=1) - 1
        return torch.minimum(self.first[axis] + self.place[axis], last)

    def _spread(self, along: str, counts: str) -> Tensor:
        """[b, r]: the padding row that a padding row names.

        The i-th of p such rows names the (i q / p)-th of q others, or the last graph.
        """
        if counts == "graphs":
            return self.place[along].new_full((), self.shape.graphs - 1)
        number = self.place[along] - self.count[along]
        number *= self.room[counts]
        number //= self.room[along]
        number += self.count[counts]
        return number
