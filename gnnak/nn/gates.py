"""Distance to the centroid (D2C): its encoding, and the gates made from it.

D2C is categorical: whatever depends on it alone is a table with a row per hop value,
computed once per call and looked up, never pushed through a layer once per copy.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding


class HopTable(nn.Module):
    r"""The encoding $\mathbf{d}_{i|j}$ of the distance from copy $i$ to root $j$.

    One learned row per hop 0..`max_hops`, and a last one for "not reached".

    Args:
        max_hops: Largest distance with a row of its own.
        channels: Width of a row, h.
    """

    def __init__(self, max_hops: int, channels: int) -> None:
        super().__init__()
        self.max_hops = max_hops
        self.weight = nn.Parameter(torch.empty(max_hops + 2, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all rows anew from the standard normal distribution."""
        nn.init.normal_(self.weight)

    def rows(self, subgraphs: RootedSubgraphs) -> Tensor:
        """The table row of each copy's hop [m]: "not reached" is the last row."""
        return subgraphs.hop_rows(self.max_hops + 2)

    def extra_repr(self) -> str:
        """Show the sizes."""
        return f"max_hops={self.max_hops}, channels={self.weight.size(1)}"


class HopGate(nn.Module):
    r"""$\text{Sigmoid}(W \mathbf{d}_{i|j} + b)$, one value per hop and channel.

    Difference from the paper: the paper applies the sigmoid to $\mathbf{d}$ itself,
    which must then be as wide as the states; here a Linear widens the one table that
    also augments the features.

    Args:
        hop_channels: Width of the hop table, h.
        channels: Width of the states that are gated, d.
    """

    def __init__(self, hop_channels: int, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hop_channels, channels)

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        self.linear.reset_parameters()

    def forward(self, table: Tensor) -> Tensor:
        """Gate values for every row of the hop table, [max_hops + 2, d]."""
        return torch.sigmoid(self.linear(table))


def make_gates(
    names: Iterable[Encoding], hop_channels: int, channels: int
) -> nn.ModuleDict:
    """A gate for each of these encodings; none at all without D2C."""
    if not hop_channels:
        return nn.ModuleDict()
    return nn.ModuleDict({name: HopGate(hop_channels, channels) for name in names})
