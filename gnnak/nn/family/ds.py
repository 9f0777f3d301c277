"""DS-GNN, Nested GNN, DSS-GNN and SUN: a GNN inside every rooted subgraph."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gnnak.nn.copies import (
    at_centroid,
    inside,
    lift,
    lift_subgraph,
    pool_context,
    pool_subgraph,
    to_nodes,
)
from gnnak.nn.family.gnn import LastReadout, SubgraphGNN, as_conv
from gnnak.nn.mlp import mlp
from gnnak.nn.norm import BatchNorm, on_graph
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
            edge_index: Directed edges of the graph, [2, e]; not used by this layer.
            edge_attr: Edge attributes, [e, c] or [e]; None if there are none.
        """
        return self.norm(inside(self.conv, h, subgraphs, edge_attr)).relu()


class DSReadout(nn.Module):
    """Pool all states of each subgraph to a state of its root, as in `ds_gnn`."""

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
    """Pool the states of each subgraph to a state of its root, as in `nested_gnn`."""

    def __init__(self, reduce: Reduce | None = "mean") -> None:
        super().__init__()
        self.reduce = reduce

    def forward(self, states: Sequence[Tensor], subgraphs: RootedSubgraphs) -> Tensor:
        """Return node states, [n, L * c]; `states` has h^0, ..., h^L, each [m, c]."""
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


class SharedConv(nn.Module):
    """Pool each node over its subgraphs; run a conv on the graph, and a BatchNorm."""

    def __init__(self, conv: nn.Module, channels: int, reduce: Reduce) -> None:
        super().__init__()
        self.conv = as_conv(conv, channels)
        self.norm = BatchNorm(channels)
        self.reduce: Reduce = reduce

    def forward(
        self,
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None,
    ) -> Tensor:
        """Return node states, [n, c]; arguments as in `InsideLayer`."""
        x = pool_context(h, subgraphs, subgraphs.known_num_nodes, self.reduce)
        with on_graph(subgraphs.real):
            return self.norm(self.conv(x, edge_index, edge_attr))


class DSSLayer(nn.Module):
    r"""One layer of DSS-GNN.

    $h_{u,v}$ is the state of node $v$ in the subgraph rooted at $u$:

    $$h_{u,v} \leftarrow \text{ReLU}\big(
        \text{BN}(\text{CONV}_{\text{inside}}(h)_{u,v})
        + \text{BN}(\text{CONV}_{\text{graph}}(\text{POOL}_w\, h_{w,\cdot})_v)\big)$$

    Args:
        conv: The GNN that runs inside each rooted subgraph.
        shared: The GNN that runs on the graph.
        channels: Width of the states.
        reduce: Whether POOL is "sum" or "mean".
    """

    def __init__(
        self, conv: nn.Module, shared: nn.Module, channels: int, reduce: Reduce = "mean"
    ) -> None:
        super().__init__()
        self.conv = as_conv(conv, channels)
        self.norm = BatchNorm(channels)
        self.shared = SharedConv(shared, channels, reduce)

    def forward(
        self,
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Compute new states of node copies, [m, c]; arguments as in `InsideLayer`."""
        own = self.norm(inside(self.conv, h, subgraphs, edge_attr))
        shared = self.shared(h, subgraphs, edge_index, edge_attr)
        return (own + lift(shared, subgraphs)).relu()


def dss_gnn(
    start: nn.Module,
    convs: Sequence[tuple[nn.Module, nn.Module]],
    channels: int,
    reduce: Reduce = "mean",
) -> SubgraphGNN:
    """Build DSS-GNN of ESAN (Bevilacqua et al., 2022).

    The layers are `DSSLayer`s. The last states are pooled over each subgraph, to a
    state of its root. In a graph task, a mean over the roots of each graph follows.
    DSS-GNN is at most as powerful as GSWL, a subgraph Weisfeiler-Leman test of Zhang et
    al. (2023).

    Difference from the authors' code: `EgoNets` leaves out nodes outside of the
    egonet. The authors' code keeps them as isolated nodes, as `MaskedEgoNets` does.

    Args:
        start: Computes the initial states; see `SubgraphGNN`.
        convs: For each layer, the GNN inside the subgraphs and the GNN on the graph.
        channels: Width of the states.
        reduce: How states are pooled, in the layers and in the readout.
    """
    layers = [DSSLayer(*pair, channels, reduce) for pair in convs]
    return SubgraphGNN(start, layers, LastReadout(reduce), channels)


SunConvs = tuple[nn.Module, nn.Module, nn.Module, nn.Module]
"""The four convs of a `SUNLayer`: two for all nodes except the root, then two for the
root. Of each two, the first runs inside the subgraphs, and the second on the graph."""


class SUNLayer(nn.Module):
    r"""One layer of SUN (subgraph union network).

    $h_{u,v}$ is the state of node $v$ in the subgraph rooted at $u$. For $u \neq v$:

    $$h_{u,v} \leftarrow \text{ReLU}\Big(\text{MLP}_1(h_{v,v}) + \text{MLP}_2(h_{u,u})
        + \text{MLP}_3(h_{u,v}) + \text{MLP}_4\big(\sum_w h_{u,w}\big)
        + \text{BN}(\text{CONV}_{\text{inside}}(h)_{u,v})
        + \text{BN}(\text{CONV}_{\text{graph}}(\text{POOL}_w\, h_{w,\cdot})_v)\Big)$$

    and for $u = v$, with two other convs, $\text{CONV}'$:

    $$h_{v,v} \leftarrow \text{ReLU}\Big(\text{MLP}_5(h_{v,v})
        + \text{MLP}_6\big(\sum_w h_{v,w}\big)
        + \text{BN}(\text{CONV}'_{\text{inside}}(h)_{v,v})
        + \text{BN}(\text{CONV}'_{\text{graph}}(\text{POOL}_w\, h_{w,\cdot})_v)\Big)$$

    Difference from the authors' code: an MLP whose input depends only on the node runs
    once per node, and an MLP whose input depends only on the subgraph runs once per
    subgraph. The authors' code runs all MLPs once per node copy, so BatchNorms in
    training use other statistics.

    Args:
        convs: The four convs; see `SunConvs`.
        channels: Width of the states.
        reduce: Whether POOL is "sum" or "mean".
    """

    def __init__(self, convs: SunConvs, channels: int, reduce: Reduce = "mean") -> None:
        super().__init__()
        widths = [channels, channels, channels]
        self.conv, self.root_conv = (as_conv(convs[i], channels) for i in (0, 2))
        self.norm, self.root_norm = BatchNorm(channels), BatchNorm(channels, "graphs")
        self.shared = SharedConv(convs[1], channels, reduce)
        self.root_shared = SharedConv(convs[3], channels, reduce)
        self.own = mlp(widths)
        self.root = mlp(widths, rows="graphs")
        self.itself = mlp(widths)
        self.pooled = mlp(widths, rows="graphs")
        self.root_own = mlp(widths, rows="graphs")
        self.root_pooled = mlp(widths, rows="graphs")

    def forward(
        self,
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Compute new states of node copies, [m, c]; arguments as in `InsideLayer`."""
        given = (h, subgraphs, edge_index, edge_attr)
        root, pooled = at_centroid(h, subgraphs), pool_subgraph(h, subgraphs, "sum")
        own = to_nodes(root, subgraphs, subgraphs.known_num_nodes)
        with on_graph(subgraphs.real):
            per_node = self.own(own) + self.shared(*given)
        per_subgraph = self.root(root) + self.pooled(pooled)
        messages = self.norm(inside(self.conv, h, subgraphs, edge_attr))
        out = lift(per_node, subgraphs) + lift_subgraph(per_subgraph, subgraphs)
        out = out + self.itself(h) + messages

        messages = at_centroid(
            inside(self.root_conv, h, subgraphs, edge_attr), subgraphs
        )
        at_roots = self.root_own(root) + self.root_pooled(pooled)
        at_roots = at_roots + self.root_norm(messages)
        at_roots = at_roots + self.root_shared(*given).index_select(0, subgraphs.root)
        return out.index_copy(0, subgraphs.centroid, at_roots).relu()


def sun_gnn(
    start: nn.Module, convs: Sequence[SunConvs], channels: int, reduce: Reduce = "mean"
) -> SubgraphGNN:
    """Build SUN (Frasca et al., 2022).

    The layers are `SUNLayer`s. The last states are pooled over each subgraph, to a
    state of its root. In a graph task, a mean over the roots of each graph follows. SUN
    is at most as powerful as GSWL, a subgraph Weisfeiler-Leman test of Zhang et al.
    (2023).

    Differences from the authors' code: see `SUNLayer`. Also, `EgoNets` leaves out nodes
    outside of the egonet; the authors' code keeps them as isolated nodes, as
    `MaskedEgoNets` does.

    Args:
        start: Computes the initial states; see `SubgraphGNN`.
        convs: The four convs of each layer; see `SunConvs`.
        channels: Width of the states.
        reduce: How states are pooled, in the layers and in the readout.
    """
    layers = [SUNLayer(four, channels, reduce) for four in convs]
    return SubgraphGNN(start, layers, LastReadout(reduce), channels)
