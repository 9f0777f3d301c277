r"""Learned embeddings of the distance from a node to its root, and gates.

The paper calls the root of a subgraph its centroid, and this distance D2C (distance to
the centroid). The embedding $\mathbf{d}_{i|j}$ of the distance from node $i$ to root
$j$ is a row of a table with one row per distance. A gate is a function of
$\mathbf{d}_{i|j}$. It is computed once for each row of that table, and then looked up
for each node of each rooted subgraph.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from gnnak.nn.segment import lookup
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding


class HopTable(nn.Module):
    r"""Learned embedding $\mathbf{d}_{i|j}$ of the distance from node $i$ to root $j$.

    `weight` has one row for each distance 0, ..., `max_hops`, and one more row for
    nodes without a path to the root within the subgraph.

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
        """Draw new embeddings from the standard normal distribution."""
        nn.init.normal_(self.weight)

    def rows(self, subgraphs: RootedSubgraphs) -> Tensor:
        """Return which row of `weight` belongs to each node of each rooted subgraph.

        Returns:
            The row, that is, the distance to the root, for each of the m pairs of a
            subgraph and a node in it, [m]. It is the last row, `max_hops + 1`, for a
            node without a path to the root.
        """
        return subgraphs.hop_rows(self.max_hops + 2)

    def per_copy(self, table: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
        """Look up the table row for each node's distance to the root of its subgraph.

        Args:
            table: One row per row of `weight`, [max_hops + 2, c]: either `weight`
                itself, or values computed from each of its rows, such as gates.
            subgraphs: The rooted subgraphs.

        Returns:
            One row for each of the m pairs of a subgraph and a node in it, [m, c].
        """
        return lookup(table, self.rows(subgraphs))

    def extra_repr(self) -> str:
        """Return `max_hops` and the width of the embeddings, as text for `repr`."""
        return f"max_hops={self.max_hops}, channels={self.weight.size(1)}"


class HopGate(nn.Module):
    r"""The gate $\text{Sigmoid}(W \mathbf{d}_{i|j} + b)$: learned factors in 0..1.

    Here $\mathbf{d}_{i|j}$ is the learned embedding of the distance from node $i$ to
    root $j$. A layer multiplies the state of node $i$ in the subgraph rooted at $j$ by
    this gate.

    Difference from the paper: the paper applies the sigmoid to $\mathbf{d}$ itself,
    which must then be as wide as the states. Here, a Linear maps $\mathbf{d}$ to the
    width of the states, so $\mathbf{d}$ may have another width.

    Args:
        hop_channels: Width of the distance embeddings, h.
        channels: Width of the states that are multiplied by the gate, c.
    """

    def __init__(self, hop_channels: int, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hop_channels, channels)

    def reset_parameters(self) -> None:
        """Initialise the weights of the Linear."""
        self.linear.reset_parameters()

    def forward(self, table: Tensor) -> Tensor:
        """Compute the gate of every distance.

        Args:
            table: The distance embeddings, `HopTable.weight`, [max_hops + 2, h].

        Returns:
            Factors in 0..1 for the c channels of the states, [max_hops + 2, c].
        """
        return torch.sigmoid(self.linear(table))


def make_gates(
    names: Iterable[Encoding], hop_channels: int, channels: int
) -> nn.ModuleDict:
    """Build one `HopGate` for each of the named encodings.

    Args:
        names: Names of the encodings whose states are multiplied by a gate.
        hop_channels: Width of the distance embeddings. If it is 0, the layer uses no
            distances, and no gates are built.
        channels: Width of the states that are multiplied by a gate.
    """
    if not hop_channels:
        return nn.ModuleDict()
    return nn.ModuleDict({name: HopGate(hop_channels, channels) for name in names})
