"""Records of tensors that the kernels take as arguments."""

from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.subgraphs.groups import Groups


class Edges(NamedTuple):
    """The edge copies of all rooted subgraphs, grouped in three ways for segment sums.

    An edge copy is an edge of the graph seen in one rooted subgraph; it joins two node
    copies. In this record, *copy* means node copy.
    """

    source: Tensor
    """[f]: the source copy of each edge copy."""
    target: Tensor
    """[f]: the target copy of each edge copy; sorted."""
    edge: Tensor
    """[f]: the edge of the graph that each edge copy stands for."""
    by_target: Groups
    """Edge copies by target copy; already sorted so, hence without a permutation."""
    by_source: Groups
    """Edge copies by source copy."""
    by_edge: Groups
    """Edge copies by edge of the graph."""


class EdgeStates(NamedTuple):
    """States of edges, [e, w], in one of two forms.

    *Rows*: `values` holds every state. *Affine*: the state of an edge is
    ReLU(slope * number + offset), a ReLU of an affine function of one number per edge;
    only the numbers, the slope and the offset are stored.
    """

    values: Tensor
    """Rows: the states, [e, w]. Affine: slope and offset, [2, w]."""
    number: Tensor | None = None
    """Affine: the number of each edge, [e]. None in the other form."""

    @classmethod
    def of(cls, states: "Tensor | EdgeStates") -> "EdgeStates":
        """Wrap a tensor of states, [e, w]; return an `EdgeStates` unchanged."""
        return cls(states) if isinstance(states, Tensor) else states

    def rows(self) -> Tensor:
        """Return all states as one tensor, [e, w]."""
        if self.number is None:
            return self.values
        return torch.relu(self.number[:, None] * self.values[0] + self.values[1])

    def at(self, edge: Tensor) -> "EdgeStates":
        """Prepare the states for the edge copies of the edges `edge` [f].

        The affine form gathers one number per edge copy, [f], for the kernels to read
        in order. Rows are returned unchanged: kernels look them up by `edge`, as
        gathering them would cost a tensor [f, w].
        """
        if self.number is None:
            return self
        return EdgeStates(self.values, self.number.index_select(0, edge))

    @property
    def of_each(self) -> Tensor:
        """The tensor with one entry per edge: the rows [e, w] or the numbers [e]."""
        return self.values if self.number is None else self.number


class Moments(NamedTuple):
    """Column statistics of a tensor [m, c], one set per block of consecutive rows.

    The kernel that computes a matrix product also computes these, so that a batch norm
    after it need not read the product again.
    """

    partial: Tensor
    """[2, p, c]: for each of p blocks, the mean of every column and the sum of squared
    deviations from that mean."""
    rows: int
    """Rows per block; the last blocks may have fewer, or none."""

    def chunk(self, count: int) -> "list[Moments]":
        """Split the columns into `count` equal parts, like `Tensor.chunk(dim=1)`."""
        return [Moments(part, self.rows) for part in self.partial.chunk(count, dim=2)]


BIAS_COLUMN = (1.0, 0.0, 0.0, 0.0)
"""Appended to rows x so that one product computes W x + b: the matrix [W, b, ...] is
multiplied with [x, 1, 0, 0, 0]. The zeros keep rows aligned to 16 bytes, which matrix
products need to be fast."""


class CentroidRows(NamedTuple):
    """One row per rooted subgraph, to be added to the row of its centroid.

    The centroid is the copy of the root in its own subgraph.
    """

    values: Tensor
    """[s, w]: the rows to add."""
    centroid: Tensor
    """[s]: the copy that is the centroid of each subgraph."""
    subgraph: Tensor
    """[m]: the subgraph of each copy."""


class NormConstants(NamedTuple):
    """A batch norm as an affine function of each column: `scale * h + shift`.

    scale = weight * rstd and shift = bias - mean * scale.
    """

    scale: Tensor
    """[c]: factor."""
    shift: Tensor
    """[c]: summand."""
    mean: Tensor
    """[c]: mean that the norm subtracts."""
    rstd: Tensor
    """[c]: reciprocal standard deviation, 1 / sqrt(variance + eps)."""
    of_batch: bool
    """Whether mean and rstd are statistics of the batch, through which gradients flow;
    otherwise they are running statistics."""
    real: Tensor | None
    """Number of rows that are not padding, a scalar; None = all."""
