"""Readouts of the last layer: from states of node copies to states of nodes.

A node copy is a node as it occurs in one rooted subgraph. $h_{u,v}$ is the state of
node $v$ in the subgraph rooted at $u$.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from gnnak.nn.copies import pool_context, pool_subgraph, to_nodes
from gnnak.nn.mlp import mlp
from gnnak.nn.norm import BatchNorm
from gnnak.nn.padding import on_graph
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import ReadoutOrder, Reduce


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
