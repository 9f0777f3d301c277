"""Parts of the members whose layers compute states of nodes, not of node copies.

These are k-hop GNN, Ego-GNN and ID-GNN-Fast. A node copy is a node as it occurs in one
rooted subgraph.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from gnnak.nn.conv import as_conv
from gnnak.nn.norm import BatchNorm
from gnnak.nn.padding import on_graph
from gnnak.subgraphs.rooted import RootedSubgraphs


class NodeStart(nn.Module):
    """Return the node states unchanged, for layers that compute node states."""

    def forward(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Return `x`, [n, c]; the other arguments are unused."""
        return x


class GraphLayer(nn.Module):
    r"""A conv on the graph, BatchNorm and ReLU: $x \leftarrow \text{ReLU BN CONV}(x)$.

    Args:
        conv: A GNN that maps states of width `channels` to states of that width.
        channels: Width of the states.
    """

    def __init__(self, conv: nn.Module, channels: int) -> None:
        super().__init__()
        self.conv = as_conv(conv, channels)
        self.norm = BatchNorm(channels)

    def forward(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Compute new node states, [n, c].

        Args:
            x: Node states, [n, c].
            subgraphs: Only used for the number of nodes that are not padding.
            edge_index: Directed edges, [2, e].
            edge_attr: Edge attributes, [e, c] or [e]; None if there are none.
        """
        with on_graph(subgraphs.real):
            return self.norm(self.conv(x, edge_index, edge_attr)).relu()


class NodeReadout(nn.Module):
    """Return the node states of the last layer.

    Args:
        normalise: Whether each state is divided by its Euclidean norm.
    """

    def __init__(self, normalise: bool = False) -> None:
        super().__init__()
        self.normalise = normalise

    def forward(self, states: Sequence[Tensor], subgraphs: RootedSubgraphs) -> Tensor:
        """Return node states, [n, c].

        Args:
            states: Node states before the first and after each layer, [n, c] each.
            subgraphs: Unused.
        """
        x = states[-1]
        return nn.functional.normalize(x) if self.normalise else x
