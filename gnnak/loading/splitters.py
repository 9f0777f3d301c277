"""Split the fields of a window into batches, without padding.

A window is several consecutive batches, assembled as one large batch. Its fields are
tensors with a row for each element of an axis: graphs, nodes, edges, rooted subgraphs,
node copies (nodes as they occur in one rooted subgraph), edge copies (edges as they
occur in one rooted subgraph) or entries of the `Filling` (the sparse matrix that
estimates encodings of dropped roots from sampled ones). `padding_splitter` has the
class that also pads each batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise

from torch import Tensor

from gnnak.graphs.real import RealCounts
from gnnak.loading.index_fields import Field, Key
from gnnak.loading.items import Shape
from gnnak.loading.split_fields import split_fields
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
