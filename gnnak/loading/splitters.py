"""Split the fields of a window into batches, without padding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise

import torch
from torch import Tensor

from gnnak.graphs.real import RealCounts
from gnnak.loading.items import Shape
from gnnak.loading.windows import (
    Field,
    Key,
    Window,
    lines_of,
    rows_per_batch,
    shift_each,
)


def split_fields(
    fields: Mapping[Key, Field], starts: Mapping[str, Sequence[int]]
) -> list[dict[Key, Tensor]]:
    """Split the fields of a window by batch, without padding.

    In each batch, indices count from 0. The parts are views of one new tensor.

    Args:
        fields: The fields; there is at least one.
        starts: For each axis, the position of the first row of each batch, and at the
            end the position after the last row. Rows before and after these are left
            out.
    """
    counts = rows_per_batch(starts)
    if not counts["graphs"]:
        return []
    ends = _last_pointers(fields, starts)
    pieces: list[Tensor] = []
    sizes: list[int] = []
    shifts: list[int] = []
    for field in fields.values():
        size, named = counts[field.axis], field.refers_to
        for line in lines_of(field):
            rows = _between(line, starts[field.axis])
            if field.kind == "pointers":
                parts = torch.split_with_sizes(rows, size)
                pieces += (piece for part in parts for piece in (part, next(ends)))
                sizes += (count + 1 for count in size)
            else:
                pieces.append(rows)
                sizes += size
            shifts += [0] * len(size) if named is None else starts[named][:-1]
    memory = torch.cat(pieces)
    parts = torch.split_with_sizes(memory, sizes)
    given = zip(parts, shifts, sizes, strict=True)
    shift_each([(part, shift) for part, shift, size in given if shift and size])
    return _by_batch(fields, counts, iter(parts))


def _by_batch(
    fields: Mapping[Key, Field],
    counts: Mapping[str, list[int]],
    parts: Iterator[Tensor],
) -> list[dict[Key, Tensor]]:
    """Return the fields of each batch, given the parts of each line of each field."""
    found = []
    for field in fields.values():
        sizes = counts[field.axis]
        views = [next(parts) for _ in sizes]
        if field.kind == "edges":
            # The line of targets comes right after the line of sources.
            stride, pairs = (sum(sizes), 1), zip(views, sizes, strict=True)
            views = [source.as_strided((2, n), stride) for source, n in pairs]
            parts = islice(parts, len(sizes), None)
        found.append(views)
    return [dict(zip(fields, each, strict=True)) for each in zip(*found, strict=True)]


def _between(line: Tensor, starts: Sequence[int]) -> Tensor:
    """Return the rows of all batches, without those before and after."""
    begin, end = starts[0], starts[-1]
    return line if line.numel() == end - begin else line[begin:end]


def _last_pointers(
    fields: Mapping[Key, Field], starts: Mapping[str, Sequence[int]]
) -> Iterator[Tensor]:
    """Return the last entry of the row pointer of each batch, for all such fields."""
    numbers: list[int] = []
    for field in fields.values():
        if field.kind == "pointers" and field.refers_to is not None:
            numbers += starts[field.refers_to][1:]
    if not numbers:
        return iter(())
    device = next(iter(fields.values())).value.device
    host = torch.tensor(numbers, device="cpu")
    return iter(host.to(device, non_blocking=True).split(1))


class Splitter(ABC):
    """Splits a window, that is, several batches assembled as one, into its batches.

    `rows`, `edges` and `pointers` split one tensor and return one part per batch. If
    the tensor contains indices, such as the nodes that edges join, the indices in a
    part count from the first row of that batch. `together` splits many tensors, which
    takes much less time than to split them one by one.
    """

    @abstractmethod
    def sizes(self, axis: str) -> Sequence[int]:
        """Return how many nodes, for example, each batch has, including padding.

        Args:
            axis: What to count: "graphs", "nodes", "edges", "subgraphs" and so on.
        """

    @abstractmethod
    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Split a tensor by batch along its first dimension.

        Args:
            value: The tensor with the r rows of all batches, [r, ...].
            axis: What each row of the tensor stands for, such as "nodes".
            refers_to: If the values are indices, what they refer to, such as "graphs";
                None if they are not indices.
            padding: Value of rows added as padding, if the values are not indices.
        """

    @abstractmethod
    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Split an `edge_index` by batch, along its second dimension.

        Args:
            value: The source and target of each of r edges, [2, r].
            axis: "edges" for edges of the graphs, "edge_copies" for edges of the rooted
                subgraphs.
            refers_to: What the edges join: "nodes" of the graphs, or "copies", the
                nodes of the rooted subgraphs.
        """

    @abstractmethod
    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Split a CSR row pointer by batch.

        For example, the pointer that tells where the nodes of each graph start has
        `keys` "graphs" and `rows` "nodes".

        Args:
            value: The pointer for all batches: where each of k groups starts, and last
                where the last group ends, [k + 1].
            keys: The axis with one entry per group, such as "graphs".
            rows: The axis whose rows are grouped, such as "nodes".
        """

    @abstractmethod
    def together(self, fields: Mapping[Key, Field]) -> list[dict[Key, Tensor]]:
        """Split several int64 tensors of the window by batch, in a few operations.

        All results are views of one new tensor.

        Args:
            fields: The tensors; those of a batch are returned by the same keys.
        """

    @abstractmethod
    def real(self) -> Sequence[RealCounts | None]:
        """Return how many graphs, nodes and so on of each batch are not padding.

        For a batch that is not padded, the entry is None.
        """

    @abstractmethod
    def padded_to(self) -> Sequence[Shape | None]:
        """Return the shape of each padded batch, and None for batches without padding.

        The shape is the number of graphs, nodes, edges and so on, with the padding.
        """


class SliceSplitter(Splitter):
    """Splits a window, that is, several batches assembled as one, without padding.

    Each batch gets a slice of every tensor. If a tensor contains indices, the position
    of the batch's first row is subtracted, so that indices count from 0 in each batch.
    `Splitter` describes the arguments of the methods.

    Args:
        window: The batches.
        first_batch: Number of the first batch to return; earlier batches are skipped.
    """

    def __init__(self, window: Window, first_batch: int = 0) -> None:
        self.starts = {axis: at[first_batch:] for axis, at in window.starts.items()}

    def sizes(self, axis: str) -> list[int]:
        """Return how many rows each batch has on an axis, such as "nodes"."""
        return [end - begin for begin, end in pairwise(self.starts[axis])]

    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Return, for each batch, its rows of `value`; `padding` is ignored."""
        if refers_to is not None:
            return self._alone(Field(value, axis, refers_to))
        sizes, before = self.sizes(axis), self.starts[axis][0]
        return value.split([before, *sizes, value.size(0) - before - sum(sizes)])[1:-1]

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Split an `edge_index` by batch; in each part, indices count from 0."""
        return self._alone(Field(value, axis, refers_to, "edges"))

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Return, for each batch, its CSR row pointer, which starts at 0."""
        return self._alone(Field(value, keys, rows, "pointers"))

    def together(self, fields: Mapping[Key, Field]) -> list[dict[Key, Tensor]]:
        """Split several int64 tensors by batch, into views of one new tensor."""
        return split_fields(fields, self.starts)

    def real(self) -> Sequence[RealCounts | None]:
        """Return None for each batch, as no batch is padded."""
        return [None] * len(self.sizes("graphs"))

    def padded_to(self) -> Sequence[Shape | None]:
        """Return None for each batch, as no batch is padded."""
        return [None] * len(self.sizes("graphs"))

    def _alone(self, field: Field) -> list[Tensor]:
        """Split one tensor by batch, into views of a tensor of their own.

        The fields of a batch that users may change in place are split with this method:
        views of the same tensor share their version counter.
        """
        return [parts[None] for parts in self.together({None: field})]
