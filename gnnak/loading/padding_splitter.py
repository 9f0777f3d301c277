"""Split the fields of a window into batches, and pad each batch.

A window is several consecutive batches, assembled as one large batch; `splitters`
explains its fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from gnnak.graphs.real import BATCH_AXES, RealCounts
from gnnak.loading.index_fields import Field, Key
from gnnak.loading.items import Shape
from gnnak.loading.joint import Joint
from gnnak.loading.padding import Span, pad_numbers, pad_pointers, pad_rows
from gnnak.loading.splitters import Splitter
from gnnak.loading.windows import Window


class PaddingSplitter(Splitter):
    """Splits a window, that is, several batches assembled as one, and pads each batch.

    Padding rows come after the real rows. Indices in padding rows refer to padding rows
    only, so padding never mixes with real data. All padding nodes belong to the last
    graph of the batch. `Splitter` describes the arguments of the methods.

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

        If the values are indices, those in padding rows refer to padding.
        """
        if refers_to is not None:
            return [indices[0] for indices in self._indices([value], axis, refers_to)]
        span = self.span[axis]
        given = (span.first, span.count, span.most, padding)
        found = pad_rows(value, *given)
        return self._cropped(found, self.sizes(axis))

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Return, for each batch, its edges, followed by self loops as padding."""
        return self._indices([*value], axis, refers_to)

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Return, for each batch, its CSR row pointer, padded with empty groups.

        If the groups are graphs, the last group is not empty but contains all padding
        nodes.
        """
        span = self.span[keys]
        given = (span.first, self.end[keys], span.most, self.span[rows].first)
        found = pad_pointers(value, *given)
        if keys == "graphs":
            found[:, -1] = self.span["nodes"].size
        return self._cropped(found, [size + 1 for size in self.sizes(keys)])

    def together(self, fields: Mapping[Key, Field]) -> list[dict[Key, Tensor]]:
        """Split several int64 tensors by batch, into padded views of one new tensor."""
        return self.joint(fields).padded()

    def joint(self, fields: Mapping[Key, Field]) -> Joint[Key]:
        """Copy the parts of several int64 tensors, with padding, into one tensor."""
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
