"""`RealCounts`: the numbers of rows of a padded batch that are not padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

BatchAxis = Literal["graphs", "nodes", "edges", "subgraphs", "copies", "edge_copies"]
BATCH_AXES: tuple[BatchAxis, ...] = get_args(BatchAxis)
"""The axes of a batch and of its rooted subgraphs, all of which may be padded."""


@dataclass(frozen=True, eq=False)
class RealCounts:
    """The number of real rows on each axis of a padded batch.

    Real rows come first. The indices in padding rows refer only to padding rows:
    padding edges join padding nodes, and padding copies are in padding subgraphs.
    """

    counts: Tensor
    """[6], int64, on the batch's device: the numbers, in the order of `BATCH_AXES`; 0
    for an axis that the batch does not have."""

    @property
    def graphs(self) -> Tensor:
        """Number of real graphs, 0-dim."""
        return self.counts[0]

    @property
    def nodes(self) -> Tensor:
        """Number of real nodes, 0-dim."""
        return self.counts[1]

    @property
    def edges(self) -> Tensor:
        """Number of real edges, 0-dim."""
        return self.counts[2]

    @property
    def subgraphs(self) -> Tensor:
        """Number of real rooted subgraphs, 0-dim."""
        return self.counts[3]

    @property
    def copies(self) -> Tensor:
        """Number of real node copies, 0-dim."""
        return self.counts[4]

    @property
    def edge_copies(self) -> Tensor:
        """Number of real edge copies, 0-dim."""
        return self.counts[5]

    def on_host(self) -> dict[BatchAxis, int]:
        """Return the numbers as integers, by axis; synchronises with the device."""
        return dict(zip(BATCH_AXES, self.counts.tolist(), strict=True))

    def to(
        self, device: torch.device | str | int, non_blocking: bool = False
    ) -> RealCounts:
        """Return a copy on another device."""
        return RealCounts(self.counts.to(device, non_blocking=non_blocking))
