"""DS-GNN and Nested GNN: the same GNN inside every rooted subgraph, then pools."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gnnak.nn.copies import at_centroid, inside, pool_subgraph, to_nodes
from gnnak.nn.family.gnn import SubgraphGNN, as_conv
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Reduce


class InsideLayer(nn.Module):
    r"""Run a conv inside each rooted subgraph, then BatchNorm and ReLU.

    $h_{u,v}$ is the state of node $v$ in the subgraph rooted at $u$:

    $$h_{u,v} \leftarrow \text{ReLU}(\text{BN}(\text{CONV}_{\text{inside}}(h)_{u,v}))$$

    $\text{CONV}_{\text{inside}}$ sends messages from $h_{u,v'}$ to $h_{u,v}$ for every
    edge $v' \to v$ of the subgraph.

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
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Compute new states of node copies, [m, c].

        Args:
            h: States of the node copies, [m, c].
            subgraphs: The rooted subgraphs.
            edge_index: Unused: the directed edges of the graph, [2, e].
            edge_attr: Edge attributes, [e, c] or [e]; None if there are none.
        """
        return self.norm(inside(self.conv, h, subgraphs, edge_attr)).relu()


class DSReadout(nn.Module):
    r"""Pool all states of each subgraph, and map the result to a state of the root.

    $$x_u = \text{ELU}\Big(W \,\text{POOL}_{v}\,
        [h^0_{u,v} \,\Vert\, \dots \,\Vert\, h^L_{u,v}] + b\Big)$$
    """

    def __init__(
        self, in_channels: int, out_channels: int, reduce: Reduce = "sum"
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(in_channels, out_channels)
        self.reduce: Reduce = reduce

    def forward(self, states: Sequence[Tensor], subgraphs: RootedSubgraphs) -> Tensor:
        """Return node states, [n, out_channels]; arguments as in `NestedReadout`."""
        h = torch.cat(list(states), dim=1)
        pooled = self.linear(pool_subgraph(h, subgraphs, self.reduce))
        return to_nodes(nn.functional.elu(pooled), subgraphs, subgraphs.known_num_nodes)


def ds_gnn(
    start: nn.Module, convs: Sequence[nn.Module], channels: int, reduce: Reduce = "sum"
) -> SubgraphGNN:
    r"""Build DS-GNN of ESAN (Bevilacqua et al., 2022), as its authors use it for ZINC.

    $h_{u,v}$ is the state of node $v$ in the subgraph rooted at $u$. Each layer runs a
    base GNN inside each rooted subgraph (`InsideLayer`). A DeepSets network pools the
    subgraphs:

    $$h^t_{u,v} = \text{ReLU}(\text{BN}(\text{CONV}_{\text{inside}}(h^{t-1})_{u,v})),
        \qquad x_u = \text{ELU}\big(W \,\text{POOL}_v\,
        [h^0_{u,v} \Vert \dots \Vert h^L_{u,v}] + b\big)$$

    In a graph task, a mean of $x_u$ over the roots $u$ follows. DS-GNN is at most as
    powerful as SWL(VS), a subgraph Weisfeiler-Leman test of Zhang et al. (2023).

    Difference from the authors' code: `EgoNets` leaves out nodes outside of the
    egonet. The authors' code keeps them as isolated nodes, as `MaskedEgoNets` does.

    Args:
        start: Computes the initial states; see `SubgraphGNN`.
        convs: One conv per layer, of equal input and output width.
        channels: Width of the states.
        reduce: How a subgraph is pooled, "sum" or "mean".
    """
    layers = [InsideLayer(conv, channels) for conv in convs]
    readout = DSReadout((len(layers) + 1) * channels, channels, reduce)
    return SubgraphGNN(start, layers, readout, channels)


class NestedReadout(nn.Module):
    r"""Concatenate the layers' states, and pool each subgraph to a state of its root.

    $$x_u = \text{POOL}_{v}\, [h^1_{u,v} \,\Vert\, \dots \,\Vert\, h^L_{u,v}]$$

    If `reduce` is None, there is no pool: $x_u$ is the state of the root, $v = u$.
    """

    def __init__(self, reduce: Reduce | None = "mean") -> None:
        super().__init__()
        self.reduce = reduce

    def forward(self, states: Sequence[Tensor], subgraphs: RootedSubgraphs) -> Tensor:
        """Return node states, [n, L * c], from `states` before and after each layer."""
        h = torch.cat(list(states[1:]), dim=1)
        if self.reduce is None:
            pooled = at_centroid(h, subgraphs)
        else:
            pooled = pool_subgraph(h, subgraphs, self.reduce)
        return to_nodes(pooled, subgraphs, subgraphs.known_num_nodes)


def nested_gnn(
    start: nn.Module,
    convs: Sequence[nn.Module],
    channels: int,
    reduce: Reduce | None = "mean",
) -> SubgraphGNN:
    r"""Build Nested GNN (Zhang and Li, 2021).

    $h_{u,v}$ is the state of node $v$ in the subgraph rooted at $u$. Each layer runs a
    base GNN inside each rooted subgraph (`InsideLayer`). The states of all layers are
    concatenated and pooled over each subgraph, to a state $x_u$ of its root. A pool
    over the roots of each graph $G$ follows:

    $$h^t_{u,v} = \text{ReLU}(\text{BN}(\text{CONV}_{\text{inside}}(h^{t-1})_{u,v})),
        \qquad x_u = \text{POOL}_{v}\, [h^1_{u,v} \Vert \dots \Vert h^L_{u,v}],
        \qquad x_G = \text{POOL}_{u}\, x_u$$

    Without the encoding "resistance", Nested GNN is at most as powerful as SWL(VS), a
    subgraph Weisfeiler-Leman test of Zhang et al. (2023).

    Differences from the authors' code: encodings of the distance and the resistance to
    the root are added to the input, not concatenated; the resistance is computed in the
    whole graph, not in the subgraph; and the ReLU follows the BatchNorm.

    Args:
        start: Computes the initial states; see `SubgraphGNN`.
        convs: One conv per layer, of equal input and output width.
        channels: Width of the states.
        reduce: How a subgraph is pooled, "sum" or "mean". If None, the state of its
            root is taken.
    """
    layers = [InsideLayer(conv, channels) for conv in convs]
    return SubgraphGNN(start, layers, NestedReadout(reduce), len(layers) * channels)
