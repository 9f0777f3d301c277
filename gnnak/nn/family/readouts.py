"""Readouts of the members, and parts of those whose layers compute states of nodes."""

from collections.abc import Sequence

from torch import Tensor, nn

from gnnak.nn.copies import pool_context, pool_subgraph, to_nodes
from gnnak.nn.family.gnn import as_conv
from gnnak.nn.mlp import mlp
from gnnak.nn.norm import BatchNorm
from gnnak.nn.padding import on_graph
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import ReadoutOrder, Reduce


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


class LastReadout(nn.Module):
    r"""Pool the last layer's states to one state per node.

    $$\text{"VS"}: x_u = \text{POOL}_{v}\, h_{u,v} \qquad
        \text{"SV"}: x_v = \text{POOL}_{u}\, h_{u,v}$$

    "VS" first pools the vertices of each subgraph; the later pool over a graph pools
    the subgraphs. "SV" first pools the subgraphs that a vertex is in.

    Args:
        reduce: What POOL is, "sum" or "mean".
        order: "VS" or "SV".
    """

    def __init__(self, reduce: Reduce = "mean", order: ReadoutOrder = "VS") -> None:
        super().__init__()
        self.reduce: Reduce = reduce
        self.order = order

    def forward(self, states: Sequence[Tensor], subgraphs: RootedSubgraphs) -> Tensor:
        """Return node states, [n, c]; arguments as in `NestedReadout`."""
        h, num_nodes = states[-1], subgraphs.known_num_nodes
        if self.order == "SV":
            return pool_context(h, subgraphs, num_nodes, self.reduce)
        pooled = pool_subgraph(h, subgraphs, self.reduce)
        return to_nodes(pooled, subgraphs, num_nodes)


class MLPReadout(LastReadout):
    r"""Pool the last layer's states to one state per node, followed by an MLP.

    $$x_u = \text{ReLU}\big(\text{BN}\big(\text{MLP}
        (\text{POOL}_{v}\, h_{u,v})\big)\big)$$

    This is the order "VS"; with "SV", POOL is over $u$, for each $v$.

    Args:
        channels: Width of the states.
        reduce: What POOL is, "sum" or "mean".
        order: "VS" or "SV".
    """

    def __init__(
        self, channels: int, reduce: Reduce = "sum", order: ReadoutOrder = "VS"
    ) -> None:
        super().__init__(reduce, order)
        self.mlp = mlp([channels, channels, channels])
        self.norm = BatchNorm(channels)

    def forward(self, states: Sequence[Tensor], subgraphs: RootedSubgraphs) -> Tensor:
        """Return node states, [n, c]; arguments as in `NestedReadout`."""
        pooled = super().forward(states, subgraphs)
        with on_graph(subgraphs.real):
            return self.norm(self.mlp(pooled)).relu()
