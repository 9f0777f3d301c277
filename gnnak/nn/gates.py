r"""The learned embedding of the distance from a node to its root, and gates from it.

The root of a subgraph is the paper's centroid, so the paper calls this distance D2C
(distance to the centroid). It is a small integer, so the embedding $\mathbf{d}_{i|j}$
of node $i$ in the subgraph rooted at $j$ is a row of a table with one row per distance.
A function of $\mathbf{d}_{i|j}$ is computed once for each row of that table, and then
looked up for each node copy (a node as seen in one rooted subgraph).
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from gnnak.nn.segment import lookup
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding


class HopTable(nn.Module):
    r"""Learned embedding $\mathbf{d}_{i|j}$ of the distance from node $i$ to root $j$.

    `weight` has one row per distance 0..`max_hops`, and a last row for nodes without a
    path to the root within the subgraph (hop -1).

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
        """Return which table row each node in each rooted subgraph uses.

        Returns:
            Row numbers, [m], for the m pairs of a subgraph and a node in it. Nodes
            without a path to the root (hop -1) use the last row.
        """
        return subgraphs.hop_rows(self.max_hops + 2)

    def per_copy(self, table: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
        """Look up the table row for each node's distance to the root of its subgraph.

        Args:
            table: `weight`, or a function of it that has the same rows, [max_hops + 2,
                c].
            subgraphs: The rooted subgraphs.

        Returns:
            One row for each of the m pairs of a subgraph and a node in it, [m, c].
        """
        return lookup(table, self.rows(subgraphs))

    def extra_repr(self) -> str:
        """Return the size of the table, as text for `repr`."""
        return f"max_hops={self.max_hops}, channels={self.weight.size(1)}"


class HopGate(nn.Module):
    r"""The gate $\text{Sigmoid}(W \mathbf{d}_{i|j} + b)$, per distance and channel.

    Here $\mathbf{d}_{i|j}$ is the learned embedding of the distance from node $i$ to
    root $j$. A layer multiplies the state of node $i$ in the subgraph rooted at $j$ by
    this gate.

    Difference from the paper: the paper applies the sigmoid to $\mathbf{d}$ itself,
    which must then be as wide as the states. Here, a Linear maps $\mathbf{d}$ to the
    width of the states, so the table may have another width.

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
        """Compute the gate of every distance, [max_hops + 2, c].

        Args:
            table: The distance embeddings, `HopTable.weight`, [max_hops + 2, h].
        """
        return torch.sigmoid(self.linear(table))


def make_gates(
    names: Iterable[Encoding], hop_channels: int, channels: int
) -> nn.ModuleDict:
    """Build one `HopGate` for each of the named encodings.

    Args:
        names: Names of the encodings whose states are multiplied by a gate.
        hop_channels: Width of the distance embeddings; 0 = the layer uses no distances,
            and the result is empty.
        channels: Width of the states that are multiplied by a gate.
    """
    if not hop_channels:
        return nn.ModuleDict()
    return nn.ModuleDict({name: HopGate(hop_channels, channels) for name in names})
