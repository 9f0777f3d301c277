"""`RealCounts`: how many rows of a padded batch are not padding.

A node copy is a node as seen in one rooted subgraph; an edge copy is an edge as seen in
one rooted subgraph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

BatchAxis = Literal["graphs", "nodes", "edges", "subgraphs", "copies", "edge_copies"]
BATCH_AXES: tuple[BatchAxis, ...] = get_args(BatchAxis)
"""The axes of a batch and of its rooted subgraphs that can be padded to a fixed size.
"copies" are node copies."""


@dataclass(frozen=True, eq=False)
class RealCounts:
    """The number of real rows (rows that are not padding) on each axis of a batch.

    Real rows come first. The indices in padding rows refer only to padding rows:
    padding edges join padding nodes, and padding node copies are in padding subgraphs.
    """

    counts: Tensor
    """[6], int64, on the batch's device: the number of real rows on each axis, in the
    order of `BATCH_AXES`. 0 for an axis that the batch does not have, such as
    "subgraphs" if no subgraphs are extracted."""

    @property
    def graphs(self) -> Tensor:
        """Number of graphs that are not padding, as a tensor without dimensions."""
        return self.counts[0]

    @property
    def nodes(self) -> Tensor:
        """Number of nodes that are not padding, as a tensor without dimensions."""
        return self.counts[1]

    @property
    def edges(self) -> Tensor:
        """Number of edges that are not padding, as a tensor without dimensions."""
        return self.counts[2]

    @property
    def subgraphs(self) -> Tensor:
        """Number of rooted subgraphs that are not padding, as a 0-dim tensor."""
        return self.counts[3]

    @property
    def copies(self) -> Tensor:
        """Number of node copies that are not padding, as a 0-dim tensor.

        A node copy is a node as seen in one rooted subgraph.
        """
        return self.counts[4]

    @property
    def edge_copies(self) -> Tensor:
        """Number of edge copies that are not padding, as a 0-dim tensor.

        An edge copy is an edge as seen in one rooted subgraph.
        """
        return self.counts[5]

    def on_host(self) -> dict[BatchAxis, int]:
        """Return the numbers of real rows by axis, as ints; synchronises."""
        return dict(zip(BATCH_AXES, self.counts.tolist(), strict=True))

    def to(
        self, device: torch.device | str | int, non_blocking: bool = False
    ) -> RealCounts:
        """Return these counts on another device; arguments as in `Tensor.to`."""
        return RealCounts(self.counts.to(device, non_blocking=non_blocking))
