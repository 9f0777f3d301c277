"""How many rows of a padded batch are real."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

BatchAxis = Literal["graphs", "nodes", "edges", "subgraphs", "copies", "edge_copies"]
BATCH_AXES: tuple[BatchAxis, ...] = get_args(BatchAxis)
"""What a batch and its rooted subgraphs have rows of."""


@dataclass(frozen=True, eq=False)
class RealCounts:
    """The number of real rows on every axis of a padded batch.

    Real rows come first; padding rows follow and refer to padding rows only: padding
    edges join padding nodes, padding copies belong to padding subgraphs.
    """

    counts: Tensor
    """[6], int64, on the batch's device, in the order of `BATCH_AXES`; 0 for an axis
    that the batch does not have."""

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
        """Return all counts as integers, by axis; synchronises with the device."""
        return dict(zip(BATCH_AXES, self.counts.tolist(), strict=True))

    def to(
        self, device: torch.device | str | int, non_blocking: bool = False
    ) -> RealCounts:
        """Return these counts on another device."""
        return RealCounts(self.counts.to(device, non_blocking=non_blocking))
