r"""The learned encoding of the distance to the centroid (D2C), and the gates from it.

D2C is categorical, so $\mathbf{d}_{i|j}$ is a row of a table with one row per distance.
Functions of $\mathbf{d}_{i|j}$ are computed for each row of that table, not for each
copy, and then looked up per copy.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from gnnak.nn.segment import lookup
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding


class HopTable(nn.Module):
    r"""Learned embedding $\mathbf{d}_{i|j}$ of the distance from node $i$ to root $j$.

    `weight` has one row per distance 0..`max_hops`, and a last row for copies without a
    path to their root (hop -1).

    Args:
        max_hops: Largest distance in the table.
        channels: Width of a row, h.
    """

    def __init__(self, max_hops: int, channels: int) -> None:
        super().__init__()
        self.max_hops = max_hops
        self.weight = nn.Parameter(torch.empty(max_hops + 2, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise all rows from the standard normal distribution."""
        nn.init.normal_(self.weight)

    def rows(self, subgraphs: RootedSubgraphs) -> Tensor:
        """Return the index of each copy's row in the table, [m]; hop -1 is the last."""
        return subgraphs.hop_rows(self.max_hops + 2)

    def per_copy(self, table: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
        """Look up the row of each copy's distance, as [m, c].

        Args:
            table: One row per row of `weight`, [max_hops + 2, c]: `weight` itself, or a
                function of it.
            subgraphs: The rooted subgraphs.
        """
        return lookup(table, self.rows(subgraphs))

    def extra_repr(self) -> str:
        """Return the sizes, for `repr`."""
        return f"max_hops={self.max_hops}, channels={self.weight.size(1)}"


class HopGate(nn.Module):
    r"""The gate $\text{Sigmoid}(W \mathbf{d}_{i|j} + b)$, per distance and channel.

    Difference from the paper: the paper applies the sigmoid to $\mathbf{d}$ itself,
    which must then be as wide as the states; here a Linear maps $\mathbf{d}$ to that
    width, so that the same table also augments the input of the base GNN.

    Args:
        hop_channels: Width of the D2C table, h.
        channels: Width of the states that are multiplied by the gate, c.
    """

    def __init__(self, hop_channels: int, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hop_channels, channels)

    def reset_parameters(self) -> None:
        """Initialise the weights."""
        self.linear.reset_parameters()

    def forward(self, table: Tensor) -> Tensor:
        """Compute the gate for each row of the D2C table, as [max_hops + 2, c]."""
        return torch.sigmoid(self.linear(table))


def make_gates(
    names: Iterable[Encoding], hop_channels: int, channels: int
) -> nn.ModuleDict:
    """Build a gate for each of the named encodings; none if `hop_channels` is 0."""
    if not hop_channels:
        return nn.ModuleDict()
    return nn.ModuleDict({name: HopGate(hop_channels, channels) for name in names})
