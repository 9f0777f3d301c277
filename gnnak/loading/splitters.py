"""Two ways to split the fields of a window into batches: without and with padding.

A window is several consecutive batches, assembled as one large batch. Its fields are
tensors with a row for each element of an axis: graphs, nodes, edges, rooted subgraphs,
node copies (a node as seen in one rooted subgraph), edge copies (an edge as seen in one
rooted subgraph) or entries of the `Filling` (the sparse matrix that estimates encodings
of dropped roots from sampled ones).
"""

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


class Splitter(ABC):
    """Splits one field of a window at a time; each method returns one part per batch.

    On every axis of a window, such as nodes, the rows of a batch are consecutive. Some
    fields contain indices of rows, such as the ends of edges; in the parts, indices
    count from the first row of their own batch.
    """

    @abstractmethod
    def sizes(self, axis: str) -> Sequence[int]:
        """Return the number of rows of each batch on an axis."""

    @abstractmethod
    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Split a field along its first dimension.

        Args:
            value: The field, [r, ...].
            axis: The axis that the r rows of the field belong to.
            refers_to: If the values are indices, the axis whose rows they refer to;
                None if they are not.
            padding: Value of padding rows, if the values are not indices.
        """

    @abstractmethod
    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Split an `edge_index` along its second dimension.

        Args:
            value: The source and target of each of r edges, [2, r].
            axis: The axis of the r columns: "edges" or "edge_copies".
            refers_to: The axis whose rows the edges join: "nodes" or "copies".
        """

    @abstractmethod
    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Split a row pointer of `Groups`, that is, of rows grouped by key (CSR).

        For example, if node copies are grouped by their subgraph, `keys` is "subgraphs"
        and `rows` is "copies".

        Args:
            value: The row pointer, [k + 1]: where the rows of each of k keys start, and
                last where the rows of the last key end.
            keys: The axis of the keys, by which rows are grouped.
            rows: The axis of the rows that are grouped.
        """

    @abstractmethod
    def real(self) -> Sequence[RealCounts | None]:
        """Return the number of real rows of each batch on every axis.

        For a batch without padding, it is None.
        """

    @abstractmethod
    def padded_to(self) -> Sequence[Shape | None]:
        """Return the shape of each padded batch; None for a batch without padding."""


class SliceSplitter(Splitter):
    """Splits a window into batches without padding.

    The part of a field for a batch is a slice of the field. If the field contains
    indices, the first row of the batch is subtracted from them.

    Args:
        window: The batches.
        first_batch: Number of the first batch to return; earlier ones are skipped.
    """

    def __init__(self, window: Window, first_batch: int = 0) -> None:
        self.starts = {axis: at[first_batch:] for axis, at in window.starts.items()}
        self.first = {axis: at[first_batch:] for axis, at in window.first.items()}

    def sizes(self, axis: str) -> list[int]:
        """Return the number of rows of each batch on an axis."""
        return [end - begin for begin, end in pairwise(self.starts[axis])]

    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Return the slice of rows of each batch; `padding` is not used."""
        sizes = self.sizes(axis)
        part = value.narrow(0, self.starts[axis][0], sum(sizes))
        if refers_to is not None:
            part = part - self._per_row(self.first[refers_to], axis)
        return part.split(sizes)

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Return the slice of columns of each batch."""
        sizes = self.sizes(axis)
        part = value.narrow(1, self.starts[axis][0], sum(sizes))
        return (part - self._per_row(self.first[refers_to], axis)).split(sizes, dim=1)

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Return the row pointer of each batch.

        Slices of neighbouring batches overlap by one entry: the end of the last key of
        one batch is the start of the first key of the next.
        """
        sizes = [size + 1 for size in self.sizes(keys)]
        number = torch.arange(len(sizes), device=value.device)
        batch = self._per_row(number, keys, extra=1)
        key = torch.arange(sum(sizes), device=value.device) - batch
        found = value[key + self.starts[keys][0]] - self.first[rows][batch]
        return found.split(sizes)

    def real(self) -> Sequence[RealCounts | None]:
        """Return None for each batch, as no batch has padding."""
        return [None] * len(self.sizes("graphs"))

    def padded_to(self) -> Sequence[Shape | None]:
        """Return None for each batch, as no batch is padded."""
        return [None] * len(self.sizes("graphs"))

    def _per_row(self, value: Tensor, axis: str, extra: int = 0) -> Tensor:
        """Repeat the value of each batch once for each of the batch's rows on an axis.

        Args:
            value: One value per batch, [b] or longer; further entries are ignored.
            axis: The axis of the rows.
            extra: Number of additional repeats per batch.
        """
        sizes = self.sizes(axis)
        total = sum(sizes) + extra * len(sizes)
        return value[: len(sizes)].repeat_interleave(
            self.first[axis].diff() + extra, output_size=total
        )


class PaddingSplitter(Splitter):
    """Splits a window into batches and pads each to a shape.

    Padding rows come after the real rows. Indices in padding rows refer to padding rows
    only, so padding never mixes with real data. They are spread evenly over the padding
    rows, in ascending order; but padding indices of graphs all refer to the last graph.

    Args:
        window: The batches.
        shapes: The shape for each of the first batches of the window; later batches are
            not returned. All shapes must have the same number of graphs.
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
        """Return the number of rows of each batch on an axis, padding included."""
        return [getattr(shape, axis) for shape in self.shapes]

    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Return the real rows of each batch, followed by padding rows."""
        if refers_to is not None:
            return [indices[0] for indices in self._indices([value], axis, refers_to)]
        span = self.span[axis]
        given = (span.first, span.count, span.most, padding)
        found = pad_rows(value, *given)
        return self._cropped(found, self.sizes(axis))

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Return the real edges of each batch, followed by self loops as padding."""
        return self._indices([*value], axis, refers_to)

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Return the row pointer of each batch, in which padding keys have no rows.

        There is one exception: all padding nodes belong to the last graph.
        """
        span = self.span[keys]
        given = (span.first, self.end[keys], span.most, self.span[rows].first)
        found = pad_pointers(value, *given)
        if keys == "graphs":
            found[:, -1] = self.span["nodes"].size
        return self._cropped(found, [size + 1 for size in self.sizes(keys)])

    def real(self) -> Sequence[RealCounts]:
        """Return the number of real rows of each batch on every axis."""
        return self.counts

    def padded_to(self) -> Sequence[Shape]:
        """Return the shape that each batch is padded to."""
        return self.shapes

    def _indices(
        self, values: list[Tensor], axis: str, refers_to: str
    ) -> Sequence[Tensor]:
        """Return for each batch its parts of v index tensors, padded, [v, rows].

        Args:
            values: The v index tensors, [r] each.
            axis: The axis of the r entries.
            refers_to: The axis whose rows the indices refer to.
        """
        axes = self.span[axis], self.span[refers_to]
        found = pad_numbers(values, *axes, to_last=refers_to == "graphs")
        sizes = [len(values) * size for size in self.sizes(axis)]
        return [part.view(len(values), -1) for part in self._cropped(found, sizes)]

    def _cropped(self, found: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
        """Return `found[i, :sizes[i]]` for each batch i."""
        pairs, most = zip(found.unbind(), sizes, strict=True), found.size(1)
        return [part if size == most else part[:size] for part, size in pairs]
