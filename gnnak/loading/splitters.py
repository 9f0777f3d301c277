"""Two ways to split the fields of a window into batches: without and with padding.

A window is several consecutive batches, assembled as one large batch. Its fields are
tensors with a row for each element of an axis: graphs, nodes, edges, rooted subgraphs,
node copies (nodes as they occur in one rooted subgraph), edge copies (edges as they
occur in one rooted subgraph) or entries of the `Filling` (the sparse matrix that
estimates encodings of dropped roots from sampled ones).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from gnnak.graphs.real import BATCH_AXES, RealCounts
from gnnak.loading.items import Shape
from gnnak.loading.joint import Field, Joint, Key, split_fields
from gnnak.loading.padding import Span, pad_numbers, pad_pointers, pad_rows
from gnnak.loading.windows import Window


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
        """Split many int64 tensors by batch; the parts are views of one tensor.

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
        """Return, for each batch, its rows of `value`.

        Args:
            value: The tensor with the rows of all batches.
            axis: What each row of the tensor stands for, such as "nodes".
            refers_to: If the values are indices, what they refer to, such as "graphs".
            padding: Ignored, as this class does not pad.
        """
        if refers_to is not None:
            return self._alone(Field(value, axis, refers_to))
        sizes, before = self.sizes(axis), self.starts[axis][0]
        return value.split([before, *sizes, value.size(0) - before - sum(sizes)])[1:-1]

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Split an `edge_index` by batch; in each part, indices count from 0.

        Args:
            value: The source and target of each edge of all batches, [2, edges].
            axis: "edges" for edges of the graphs, "edge_copies" for edges of the rooted
                subgraphs.
            refers_to: What the edges join: "nodes" of the graphs, or "copies", the
                nodes of the rooted subgraphs.
        """
        return self._alone(Field(value, axis, refers_to, "edges"))

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Return, for each batch, its CSR row pointer, which starts at 0.

        Args:
            value: The pointer for all batches: where each group starts, and last where
                the last group ends.
            keys: The axis with one entry per group, such as "graphs".
            rows: The axis whose rows are grouped, such as "nodes".
        """
        return self._alone(Field(value, keys, rows, "pointers"))

    def together(self, fields: Mapping[Key, Field]) -> list[dict[Key, Tensor]]:
        """Split many int64 tensors by batch; the parts are views of one tensor."""
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


class PaddingSplitter(Splitter):
    """Splits a window, that is, several batches assembled as one, and pads each batch.

    Padding rows come after the real rows. Indices in padding rows refer to padding rows
    only, so padding never mixes with real data. All padding nodes belong to the last
    graph of the batch.

    Args:
        window: The batches.
        shapes: The sizes to pad each batch to. Only the first `len(shapes)` batches are
            returned. All shapes must have the same number of graphs.
    """

    def __init__(self, window: Window, shapes: Sequence[Shape]) -> None:
        assert len({shape.graphs for shape in shapes}) == 1
        self.window, self.shapes, device = window, shapes, window.batch.device
        axes = list(window.starts)
        bounds = [window.starts[axis][: len(shapes) + 1] for axis in axes]
        sizes = [self.sizes(axis) for axis in axes]
        counts = [[end - begin for begin, end in pairwise(at)] for at in bounds]
        table = [[at[:-1] for at in bounds], [at[1:] for at in bounds], counts, sizes]
        given = torch.tensor(table, device="cpu").to(device, non_blocking=True)
        first, ends, count, size = map(Tensor.unbind, given)
        self.end = dict(zip(axes, ends, strict=True))
        spans = map(Span, first, count, size, map(max, sizes))
        self.span = dict(zip(axes, spans, strict=True))
        real = torch.stack([self.span[axis].count for axis in BATCH_AXES], dim=1)
        self.counts = list(map(RealCounts, real))

    def sizes(self, axis: str) -> list[int]:
        """Return how many rows each padded batch has on an axis, such as "nodes"."""
        return [getattr(shape, axis) for shape in self.shapes]

    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Return, for each batch, its rows of `value`, followed by padding rows.

        Args:
            value: The tensor with the rows of all batches.
            axis: What each row of the tensor stands for, such as "nodes".
            refers_to: If the values are indices, what they refer to, such as "graphs";
                the indices in padding rows refer to padding.
            padding: Value of the padding rows, if the values are not indices.
        """
        if refers_to is not None:
            return [indices[0] for indices in self._indices([value], axis, refers_to)]
        span = self.span[axis]
        given = (span.first, span.count, span.most, padding)
        found = pad_rows(value, *given)
        return self._cropped(found, self.sizes(axis))

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Return, for each batch, its edges, followed by self loops as padding.

        Args:
            value: The source and target of each edge of all batches, [2, edges].
            axis: "edges" for edges of the graphs, "edge_copies" for edges of the rooted
                subgraphs.
            refers_to: What the edges join: "nodes" of the graphs, or "copies", the
                nodes of the rooted subgraphs.
        """
        return self._indices([*value], axis, refers_to)

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Return, for each batch, its CSR row pointer, padded with empty groups.

        If the groups are graphs, the last group is not empty but contains all padding
        nodes.

        Args:
            value: The pointer for all batches: where each group starts, and last where
                the last group ends.
            keys: The axis with one entry per group, such as "graphs".
            rows: The axis whose rows are grouped, such as "nodes".
        """
        span = self.span[keys]
        given = (span.first, self.end[keys], span.most, self.span[rows].first)
        found = pad_pointers(value, *given)
        if keys == "graphs":
            found[:, -1] = self.span["nodes"].size
        return self._cropped(found, [size + 1 for size in self.sizes(keys)])

    def together(self, fields: Mapping[Key, Field]) -> list[dict[Key, Tensor]]:
        """Split many int64 tensors by batch, and pad them; all are views of one."""
        return self.joint(fields).padded()

    def joint(self, fields: Mapping[Key, Field]) -> Joint[Key]:
        """Copy the parts of many int64 tensors and their padding into one tensor."""
        sizes = {axis: self.sizes(axis) for axis in self.window.starts}
        return Joint(fields, self.window.starts, sizes)

    def real(self) -> Sequence[RealCounts]:
        """Return how many graphs, nodes and so on of each batch are not padding."""
        return self.counts

    def padded_to(self) -> Sequence[Shape]:
        """Return the shape that each batch is padded to."""
        return self.shapes

    def _indices(
        self, values: list[Tensor], axis: str, refers_to: str
    ) -> Sequence[Tensor]:
        """Split index tensors by batch, pad the parts, and stack them for each batch.

        Args:
            values: Index tensors of equal length, such as the sources and the targets
                of edges.
            axis: What each entry of the tensors stands for, such as "edges".
            refers_to: What the indices refer to, such as "nodes".
        """
        axes = self.span[axis], self.span[refers_to]
        found = pad_numbers(values, *axes, to_last=refers_to == "graphs")
        sizes = [len(values) * size for size in self.sizes(axis)]
        return [part.view(len(values), -1) for part in self._cropped(found, sizes)]

    def _cropped(self, found: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
        """Return the first `sizes[i]` entries of row i of `found`, for each batch i."""
        pairs, most = zip(found.unbind(), sizes, strict=True), found.size(1)
        return [part if size == most else part[:size] for part, size in pairs]
