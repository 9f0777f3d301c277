"""What the kernels are handed beside tensors of states."""

from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.subgraphs.groups import Groups


class Edges(NamedTuple):
    """Edge copies, and how they are grouped."""

    source: Tensor
    """[f]: the copy each one leaves."""
    target: Tensor
    """[f]: the copy it enters."""
    edge: Tensor
    """[f]: the edge it stands for."""
    by_target: Groups
    """Edge copies that enter one copy; they stand in this order."""
    by_source: Groups
    """Edge copies that leave one copy."""
    by_edge: Groups
    """Edge copies that stand for one edge."""


class EdgeStates(NamedTuple):
    """States of edges, [e, w]: rows of their own, or a line that is cut off at 0."""

    values: Tensor
    """The rows, [e, w]; of a line its slope and its offset, [2, w]."""
    number: Tensor | None = None
    """[e]: what makes states ReLU(slope * number + offset); None = they are rows."""

    @classmethod
    def of(cls, states: "Tensor | EdgeStates") -> "EdgeStates":
        """States, of which a tensor has the rows."""
        return cls(states) if isinstance(states, Tensor) else states

    def rows(self) -> Tensor:
        """All states, [e, w]."""
        if self.number is None:
            return self.values
        return torch.relu(self.number[:, None] * self.values[0] + self.values[1])

    def at(self, edge: Tensor) -> "EdgeStates":
        """States of edges that `edge` [f] names: a line has theirs, rows stay all."""
        if self.number is None:
            return self
        return EdgeStates(self.values, self.number.index_select(0, edge))

    @property
    def of_each(self) -> Tensor:
        """What has an entry for every edge, [e] or [e, w]."""
        return self.values if self.number is None else self.number


class Moments(NamedTuple):
    """Statistics of columns, of some rows at a time: those that a product gave."""

    partial: Tensor
    """[2, p, c]: means, and sums of squares around them, of each part."""
    rows: int
    """Rows of each part but the last ones, which may have fewer, or none."""

    def chunk(self, count: int) -> "list[Moments]":
        """The columns in so many parts."""
        return [Moments(part, self.rows) for part in self.partial.chunk(count, dim=2)]


BIAS_COLUMN = (1.0, 0.0, 0.0, 0.0)
"""What may stand behind rows that are multiplied with a matrix and an offset: then both
are one matrix. Rows begin where 16 bytes do, as products like them."""


class CentroidRows(NamedTuple):
    """What is added to the rows of centroids."""

    values: Tensor
    """[s, w]: for each subgraph."""
    centroid: Tensor
    """[s]: the row of its centroid."""
    subgraph: Tensor
    """[m]: the subgraph each row is in."""


class NormConstants(NamedTuple):
    """What a norm does to its columns: `scale * h + shift`."""

    scale: Tensor
    """[c]."""
    shift: Tensor
    """[c]."""
    mean: Tensor
    """[c]: what it takes off."""
    rstd: Tensor
    """[c]: what it multiplies with before weight and bias."""
    of_batch: bool
    """Whether these are statistics of the rows themselves."""
    real: Tensor | None
    """Number of rows that are no padding, a scalar; None = all."""
