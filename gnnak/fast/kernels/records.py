"""Named tuples of tensors that the fused kernels take as arguments.

A *node copy* is a node as seen in one rooted subgraph, and an *edge copy* is an edge as
seen in one rooted subgraph. Letters in shapes: m node copies, f edge copies, s rooted
subgraphs, e edges of the graph, w and c columns.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.subgraphs.groups import Groups


class Edges(NamedTuple):
    """The f edge copies of all rooted subgraphs, grouped three ways for segment sums.

    An edge copy is an edge of the graph as seen in one rooted subgraph. It joins two
    node copies: two nodes as seen in that subgraph.
    """

    source: Tensor
    """[f]: index of the node copy at which each edge copy starts."""
    target: Tensor
    """[f]: index of the node copy at which each edge copy ends; in ascending order."""
    edge: Tensor
    """[f]: index of the graph's edge of which each edge copy is a copy."""
    by_target: Groups
    """The edge copies grouped by target, in CSR form (compressed sparse rows). Its
    `order` is None, since the edge copies are already sorted by target."""
    by_source: Groups
    """The edge copies grouped by source, in CSR form."""
    by_edge: Groups
    """The edge copies grouped by the graph's edge, in CSR form."""


class EdgeStates(NamedTuple):
    """Feature vectors of e edges with w columns each, stored in one of two forms.

    - Row form: `values` holds the state of every edge, [e, w], and `number` is None.
    - Affine form: the state of an edge is ReLU(slope * number + offset), with one
      number per edge. `values` holds slope and offset, [2, w]; `number` is [e].
    """

    values: Tensor
    """Either the state of every edge, [e, w]; or, if `number` is given, the slope and
    the offset from which all states are computed, [2, w]."""
    number: Tensor | None = None
    """One number per edge, [e], if states are ReLU(slope * number + offset); None if
    `values` holds the states themselves."""

    @classmethod
    def of(cls, states: "Tensor | EdgeStates") -> "EdgeStates":
        """Wrap a tensor of edge states, [e, w]; return an `EdgeStates` unchanged."""
        return cls(states) if isinstance(states, Tensor) else states

    def rows(self) -> Tensor:
        """Return the states of all edges as one tensor, [e, w], whatever the form."""
        if self.number is None:
            return self.values
        return torch.relu(self.number[:, None] * self.values[0] + self.values[1])

    def at(self, edge: Tensor) -> "EdgeStates":
        """Return the edge states as the kernels expect them.

        In the affine form, `number` of the result has one entry for each edge in
        `edge`, [f]. In the row form, the result is this object itself: the kernels look
        up the rows.

        Args:
            edge: For each of the f edges of all rooted subgraphs, its index among the
                edges of the graph, [f].
        """
        if self.number is None:
            return self
        return EdgeStates(self.values, self.number.index_select(0, edge))


class Moments(NamedTuple):
    """Column statistics of a tensor [m, c], for each block of consecutive rows.

    The kernel that computes a matrix product also computes the statistics of the
    product, so that a following batch norm need not read the product again.
    """

    partial: Tensor
    """[2, p, c]: for each of p blocks of rows, the mean of every column (index 0) and
    the sum of squared deviations from that mean (index 1)."""
    rows: int
    """Rows per block. The last blocks may have fewer rows, or none."""

    def chunk(self, count: int) -> "list[Moments]":
        """Split the c columns into `count` equal parts.

        Part i holds the statistics of part i of `tensor.chunk(count, dim=1)`.
        """
        return [Moments(part, self.rows) for part in self.partial.chunk(count, dim=2)]


BIAS_COLUMN = (1.0, 0.0, 0.0, 0.0)
"""Four values appended to every row x, so that one matrix product computes W x + b.

The product multiplies the matrix [W, b, ...] with the row [x, 1, 0, 0, 0]. The three
zeros keep rows aligned to 16 bytes, which fast matrix products need."""


class CentroidRows(NamedTuple):
    """Rows to add to the rows of root nodes, in a tensor [m, w] of m node copies.

    There is one row for each of s rooted subgraphs. It is added to the row of the node
    copy that is the root of this subgraph (its centroid).
    """

    values: Tensor
    """[s, w]: the row to add for each subgraph."""
    centroid: Tensor
    """[s]: index of the node copy that is the root of each subgraph."""
    subgraph: Tensor
    """[m]: index of the subgraph that each node copy belongs to."""


class NormConstants(NamedTuple):
    """A batch norm with known statistics, as the affine function `scale * h + shift`.

    scale = weight * rstd and shift = bias - mean * scale, for each of c columns.
    """

    scale: Tensor
    """[c]: the factor of each column."""
    shift: Tensor
    """[c]: what is added to each column after scaling."""
    mean: Tensor
    """[c]: the mean that the norm subtracts from each column."""
    rstd: Tensor
    """[c]: reciprocal standard deviation, 1 / sqrt(variance + eps)."""
    of_batch: bool
    """True if `mean` and `rstd` were computed from the batch, so that gradients flow
    through them; False if they are the norm's running statistics, as in evaluation."""
    real: Tensor | None
    """Number of rows that are not padding, a scalar; None if there is no padding."""
