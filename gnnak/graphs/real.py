"""`RealCounts`: the numbers of graphs, nodes and edges of a batch without padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

BatchAxis = Literal["graphs", "nodes", "edges", "subgraphs", "copies", "edge_copies"]
BATCH_AXES: tuple[BatchAxis, ...] = get_args(BatchAxis)
"""The axes of a batch that can be padded; "copies" are node copies."""

REAL = "_real_counts"
"""Name of the Python attribute that holds the `RealCounts` of a padded PyG batch."""


@dataclass(frozen=True, eq=False)
class RealCounts:
    """The numbers of graphs, nodes and so on of a batch without its padding.

    In every tensor, real rows come first. Padding edges join padding nodes, and padding
    subgraphs contain only padding nodes.
    """

    counts: Tensor
    """[6], int64, on the batch's device: numbers in the order of `BATCH_AXES`. The last
    three are 0 if the batch has no rooted subgraphs."""

    @property
    def graphs(self) -> Tensor:
        return self.counts[0]

    @property
    def nodes(self) -> Tensor:
        return self.counts[1]

    @property
    def edges(self) -> Tensor:
        return self.counts[2]

    @property
    def subgraphs(self) -> Tensor:
        return self.counts[3]

    @property
    def copies(self) -> Tensor:
        """Number of node copies, as a 0-dim tensor."""
        return self.counts[4]

    @property
    def edge_copies(self) -> Tensor:
        return self.counts[5]

    def on_host(self) -> dict[BatchAxis, int]:
        """Return these counts as ints, by name; on a GPU, this synchronises."""
        return dict(zip(BATCH_AXES, self.counts.tolist(), strict=True))

    def to(
        self, device: torch.device | str | int, non_blocking: bool = False
    ) -> RealCounts:
        """Return these counts on another device; arguments as in `Tensor.to`."""
        return RealCounts(self.counts.to(device, non_blocking=non_blocking))


def real_counts_of(batch: object) -> RealCounts | None:
    """Return the `RealCounts` of a padded batch; None if the batch is not padded."""
    for name in (REAL, "real"):
        found = getattr(batch, name, None)
        if isinstance(found, RealCounts):
            return found
    return None
