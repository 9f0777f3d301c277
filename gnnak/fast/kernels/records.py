"""Arguments of the fused kernels. In shapes, w is a number of columns, as is c."""

from typing import NamedTuple

from torch import Tensor

from gnnak.subgraphs.groups import Groups


class Edges(NamedTuple):
    """The f edge copies of all rooted subgraphs, and three ways to group them."""

    source: Tensor
    """[f]: the node copy at the start of each edge copy."""
    target: Tensor
    """[f]: the node copy at the end of each edge copy; in ascending order."""
    edge: Tensor
    """[f]: the edge of the graph that each edge copy stands for."""
    by_target: Groups
    """The edge copies grouped by target; `order` is None, as `target` is sorted."""
    by_source: Groups
    by_edge: Groups | None
    """The edge copies grouped by edge of the graph. None if there are no edge states,
    or if all edges have the same state."""


class Lifted(NamedTuple):
    """The states of node copies, as the two terms of `x[node] + table[rows]`."""

    x: Tensor
    """[n, w]: the states of the nodes."""
    table: Tensor
    """[t, w]: the embedding of each distance to the root, with the dtype of `x`."""
    node: Tensor
    """[m]: the node of each node copy."""
    rows: Tensor
    """[m]: for each node copy, its row of `table`."""

    def stored(self) -> Tensor:
        hops = self.table.index_select(0, self.rows)
        return self.x.index_select(0, self.node) + hops


class Moments(NamedTuple):
    """Column statistics of a tensor [m, c], for each block of consecutive rows."""

    partial: Tensor
    """[2, p, c]: for each of p blocks of rows, the mean of every column (index 0) and
    the sum of squared deviations from that mean (index 1)."""
    rows: int
    """Rows per block. The last blocks may have fewer rows, or none."""

    def chunk(self, count: int) -> "list[Moments]":
        return [Moments(part, self.rows) for part in self.partial.chunk(count, dim=2)]


BIAS_COLUMN = (1.0, 0.0, 0.0, 0.0)
"""Values to append to the input x of a Linear with weight W and bias b, as in W x + b =
[W, b, b, b, b] [x, 1, 0, 0, 0]. The zeros keep rows aligned to 16 bytes, which fast
matrix products need."""


class CentroidRows(NamedTuple):
    """Vectors to add to those rows of a tensor [m, w] that belong to roots."""

    values: Tensor
    """[s, w]: for each rooted subgraph, the vector to add to the row of its root."""
    centroid: Tensor
    """[s]: for each rooted subgraph, the row that belongs to its root."""
    subgraph: Tensor
    """[m]: the rooted subgraph of each row."""


class GatedPool(NamedTuple):
    """Divides m rows into groups; `gated_sums` sums the gated rows of each group."""

    groups: Groups
    key: Tensor
    """[m]: the group of each row."""


MOST_HOP_LINEARS = 4
"""Largest number of Linears in `HopLinears`: one for embeddings, three for gates."""


class HopLinears(NamedTuple):
    """Weights, or gradients of weights, of the Linears that compute hop tables."""

    weights: list[Tensor]
    """[c, h] each. If there is one more than `biases`, the first Linear has no bias and
    computes the hop table that is added to states. The others compute gates."""
    biases: list[Tensor]
    """[c] each: the biases of the Linears that compute tables of gates."""


class NormConstants(NamedTuple):
    """A batch norm with known mean and variance, written as `scale * h + shift`."""

    scale: Tensor
    """[c]: weight * rstd."""
    shift: Tensor
    """[c]: bias - mean * scale."""
    mean: Tensor
    """[c]: the mean that the norm subtracts from each column."""
    rstd: Tensor
    """[c]: reciprocal standard deviation, 1 / sqrt(variance + eps)."""
    of_batch: bool
    """Whether `mean` and `rstd` are those of the batch, and not running statistics."""
    real: Tensor | None
    """Number of rows that are not padding, a scalar; None if there is no padding."""
    total: Tensor | None = None
    """[c]: number of real rows of all processes; None if statistics are of one."""
