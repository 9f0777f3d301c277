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
    """[f]: for each edge of each rooted subgraph, the index of the source node among
    the nodes of all rooted subgraphs (the node copies)."""
    target: Tensor
    """[f]: for each edge of each rooted subgraph, the index of the target node among
    the nodes of all rooted subgraphs (the node copies); in ascending order."""
    edge: Tensor
    """[f]: for each edge of each rooted subgraph, its index in the whole graph."""
    by_target: Groups
    """The edge copies (edges as seen in one rooted subgraph) grouped by `target`, in
    CSR form (compressed sparse rows). The field `order` of these `Groups` is None,
    since the edge copies are already sorted by target."""
    by_source: Groups
    """The edge copies (edges as seen in one rooted subgraph) grouped by `source`, in
    CSR form (compressed sparse rows)."""
    by_edge: Groups
    """The edge copies (edges as seen in one rooted subgraph) grouped by `edge`, the
    edge of the graph, in CSR form (compressed sparse rows)."""


class EdgeStates(NamedTuple):
    """The states (feature vectors of width w) of e edges, stored in one of two forms.

    - Row form: `values` holds the state of every edge, [e, w], and `number` is None.
    - Affine form: the state of an edge is ReLU(slope * number + offset), with one
      number per edge. `values` holds slope and offset, [2, w]; `number` is [e].
    """

    values: Tensor
    """If `number` is None, the state of every edge, [e, w]. Otherwise the slope and the
    offset from which the states are computed, [2, w]."""
    number: Tensor | None = None
    """One number per edge, [e], if the state of an edge is ReLU(slope * number +
    offset); None if `values` holds the states themselves."""

    @classmethod
    def of(cls, states: "Tensor | EdgeStates") -> "EdgeStates":
        """Wrap a tensor of edge states, [e, w]; return an `EdgeStates` unchanged."""
        return cls(states) if isinstance(states, Tensor) else states

    def rows(self) -> Tensor:
        """Return the states of all edges as a tensor, [e, w]; compute it if needed."""
        if self.number is None:
            return self.values
        return torch.relu(self.number[:, None] * self.values[0] + self.values[1])

    def at(self, edge: Tensor) -> "EdgeStates":
        """Return the edge states in the form that kernels on rooted subgraphs take.

        If the states are computed from one number per edge, the result has the numbers
        `number[edge]`, [f], in place of `number`. Otherwise the result is this object
        unchanged, and the kernels gather the rows of `values` themselves.

        Args:
            edge: For each of the f edges of all rooted subgraphs, its index among the
                edges of the graph, [f].
        """
        if self.number is None:
            return self
        return EdgeStates(self.values, self.number.index_select(0, edge))


class Lifted(NamedTuple):
    """States of node copies that are not stored: `x[node] + table[rows]`.

    A node copy is a node as seen in one rooted subgraph. Kernels compute its state, the
    sum of the state of the node and an embedding of the distance to the root, whenever
    they need it.
    """

    x: Tensor
    """[n, w]: the states of the nodes."""
    table: Tensor
    """[t, w]: the embedding of each distance to the root, with the dtype of `x`."""
    node: Tensor
    """[m]: the node of each node copy."""
    rows: Tensor
    """[m]: for each node copy, its row of `table`."""

    @classmethod
    def of(
        cls,
        x: Tensor,
        table: Tensor,
        node: Tensor,
        rows: Tensor,
        dtype: torch.dtype | None,
    ) -> "Lifted":
        """Return the states, with the data type of `x` and `table` if `dtype` is None.

        With autocast, `x` and `table` are converted to its data type first, since
        kernels read them many times.

        Args:
            x: The states of the nodes.
            table: The embedding of each distance.
            node: The node of each node copy (a node as seen in one subgraph).
            rows: For each node copy, its row of `table`.
            dtype: Data type of the states.
        """
        dtype = dtype or torch.promote_types(x.dtype, table.dtype)
        x = x if x.dtype == dtype else x.to(dtype)
        table = table if table.dtype == dtype else table.to(dtype)
        return cls(x.contiguous(), table.contiguous(), node, rows)

    def stored(self) -> Tensor:
        """Return the states as a tensor, [m, w]."""
        hops = self.table.index_select(0, self.rows)
        return self.x.index_select(0, self.node) + hops


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

        Part i of the result has the statistics of `tensor.chunk(count, dim=1)[i]`,
        where `tensor` is the tensor that these statistics describe.
        """
        return [Moments(part, self.rows) for part in self.partial.chunk(count, dim=2)]


BIAS_COLUMN = (1.0, 0.0, 0.0, 0.0)
"""Four values appended to every row x, so that one matrix product computes W x + b.

The product multiplies the matrix [W, b, b, b, b] with the row [x, 1, 0, 0, 0]. The
three zeros keep rows aligned to 16 bytes, which fast matrix products need."""


class CentroidRows(NamedTuple):
    """Vectors to add to those rows of a tensor [m, w] that belong to root nodes.

    The tensor has one row for each of the m node copies (nodes as seen in one rooted
    subgraph). There are s rooted subgraphs, with one vector for the root of each.
    """

    values: Tensor
    """[s, w]: for each rooted subgraph, the vector to add to the row of its root."""
    centroid: Tensor
    """[s]: for each rooted subgraph, the index of the row that belongs to its root."""
    subgraph: Tensor
    """[m]: for each row, the index of the rooted subgraph that it belongs to."""


class GatedSum(NamedTuple):
    """Groups of rows to sum, after each row is multiplied by a gate."""

    table: Tensor | None
    """[t, c]: the gates, which are looked up for each row; None = rows are summed as
    they are. The table is contiguous."""
    groups: Groups
    """Which rows belong to each of k groups."""


class GatedGrad(NamedTuple):
    """The gradient of sums over groups of rows that are multiplied by gates."""

    grad: Tensor
    """[k, c]: the gradient of the sum of each of k groups. The entries of a row are
    adjacent in memory."""
    table: Tensor | None
    """[t, c]: the gates, which are looked up for each row; None = rows are summed as
    they are. The table is contiguous."""
    key: Tensor
    """[m]: for each row, the group that it belongs to."""


MOST_HOP_LINEARS = 4
"""Largest number of `HopLinears`: one without a gate, and three gates."""


class HopLinears(NamedTuple):
    """Linears of the embeddings of distances: at most one without a gate, then gates.

    Also their gradients, in the same form.
    """

    weights: list[Tensor]
    """[c, h] each: the weights, that of the Linear without a gate first."""
    biases: list[Tensor]
    """[c] each: the biases of the gates, whose tables are sigmoids of the Linear."""


class NormConstants(NamedTuple):
    """A batch norm with known statistics, as the affine function `scale * h + shift`.

    For each of c columns, scale = weight * rstd and shift = bias - mean * scale, where
    rstd = 1 / sqrt(variance + eps).
    """

    scale: Tensor
    """[c]: the factor by which the norm multiplies each column, weight * rstd."""
    shift: Tensor
    """[c]: the number that the norm adds to each column after scaling."""
    mean: Tensor
    """[c]: the mean that the norm subtracts from each column."""
    rstd: Tensor
    """[c]: reciprocal standard deviation, 1 / sqrt(variance + eps)."""
    of_batch: bool
    """True if `mean` and `rstd` were computed from the batch, so that gradients flow
    through them; False if they are the norm's running statistics, as in evaluation."""
    real: Tensor | None
    """Number of rows that are not padding, a scalar; None if there is no padding."""
