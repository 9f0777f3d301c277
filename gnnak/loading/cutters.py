"""Two ways to cut a window into batches: as they are, and padded to given shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from gnnak.graphs.real import BATCH_AXES, RealCounts
from gnnak.loading.items import Shape
from gnnak.loading.padding import Span, pad_numbers, pad_pointers, pad_rows
from gnnak.loading.windows import Window


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
    def real(self) -> Sequence[RealCounts | None]:
        """How many rows of each batch are real; None = all."""

    @abstractmethod
    def padded_to(self) -> Sequence[Shape | None]:
        """The shape each batch is padded to; None = it is not padded."""


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

    def real(self) -> Sequence[RealCounts | None]:
        """All rows are real."""
        return [None] * len(self.sizes("graphs"))

    def padded_to(self) -> Sequence[Shape | None]:
        """Nothing is padded."""
        return [None] * len(self.sizes("graphs"))

    def _of_batch(self, value: Tensor, along: str, more: int = 0) -> Tensor:
        """For every row on an axis, and `more` a batch, the value of its batch."""
        sizes = self.sizes(along)
        return value[: len(sizes)].repeat_interleave(
            self.first[along].diff() + more, output_size=sum(sizes) + more * len(sizes)
        )


class Padding(Cutter):
    """Batches padded each to its shape, the first ones of a window: rows of matrices.

    Padding rows stand behind the real ones and name padding rows alone, spread evenly
    over them and in their order, or the last graph: what is padding touches nothing
    that is real.

    Args:
        window: The batches.
        shapes: Sizes to pad each of the first batches to; equally many graphs.
    """

    def __init__(self, window: Window, shapes: Sequence[Shape]) -> None:
        assert len({shape.graphs for shape in shapes}) == 1
        self.shapes, device = shapes, window.batch.device
        axes = list(window.first)
        bounds = torch.stack([at[: len(shapes) + 1] for at in window.first.values()])
        sizes = torch.tensor([self.sizes(axis) for axis in axes])
        self.end = dict(zip(axes, bounds[:, 1:], strict=True))
        most = [max(self.sizes(axis)) for axis in axes]
        given = (bounds[:, :-1], bounds.diff(), sizes.to(device, non_blocking=True))
        self.span = dict(zip(axes, map(Span, *given, most), strict=True))
        counts = torch.stack([self.span[axis].count for axis in BATCH_AXES], dim=1)
        self.counts = list(map(RealCounts, counts))

    def sizes(self, axis: str) -> list[int]:
        """Those of its shape."""
        return [getattr(shape, axis) for shape in self.shapes]

    def rows(
        self, value: Tensor, along: str, counts: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Rows, and padding behind them."""
        if counts is not None:
            return [numbers[0] for numbers in self._numbers([value], along, counts)]
        span = self.span[along]
        given = (span.first, span.count, span.most, padding)
        found = pad_rows(value, *given)
        return self._cropped(found, self.sizes(along))

    def ends(self, value: Tensor, along: str, counts: str) -> Sequence[Tensor]:
        """Edges; those that are padding are self loops."""
        return self._numbers([*value], along, counts)

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Padding rows have no key, but all padding nodes are in a graph, the last."""
        span = self.span[keys]
        given = (span.first, self.end[keys], span.most, self.span[rows].first)
        found = pad_pointers(value, *given)
        if keys == "graphs":
            found[:, -1] = self.span["nodes"].size
        return self._cropped(found, [size + 1 for size in self.sizes(keys)])

    def real(self) -> Sequence[RealCounts]:
        """The real counts of every batch."""
        return self.counts

    def padded_to(self) -> Sequence[Shape]:
        """The shape of every batch."""
        return self.shapes

    def _numbers(
        self, values: list[Tensor], along: str, counts: str
    ) -> Sequence[Tensor]:
        """[v, r] of each batch: numbers of rows, those of padding spread over them."""
        axes = self.span[along], self.span[counts]
        found = pad_numbers(values, *axes, to_last=counts == "graphs")
        sizes = [len(values) * size for size in self.sizes(along)]
        return [part.view(len(values), -1) for part in self._cropped(found, sizes)]

    def _cropped(self, found: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
        """The first rows of each batch's, so many as it shall have."""
        pairs, most = zip(found.unbind(), sizes, strict=True), found.size(1)
        return [part if size == most else part[:size] for part, size in pairs]
