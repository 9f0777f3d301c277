"""DSS-GNN: a GNN inside each subgraph, and one on the graph of pooled states."""

from collections.abc import Sequence

from torch import Tensor, nn

from gnnak.nn.copies import inside, lift, pool_context
from gnnak.nn.family.gnn import SubgraphGNN, as_conv
from gnnak.nn.family.readouts import LastReadout
from gnnak.nn.norm import BatchNorm
from gnnak.nn.padding import on_graph
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Reduce


class SharedConv(nn.Module):
    r"""Run a conv on the graph, on states pooled over all subgraphs of each node.

    $$x_v = \text{BN}(\text{CONV}_{\text{graph}}(\text{POOL}_{w}\, h_{w,\cdot})_v)$$

    $h_{w,v}$ is the state of node $v$ in the subgraph rooted at $w$.

    Args:
        conv: A GNN that maps states of width `channels` to states of that width.
        channels: Width of the states.
        reduce: What POOL is, "sum" or "mean".
    """

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
        reduce: What POOL is, "sum" or "mean".
    """

    def __init__(
        self,
        conv: nn.Module,
        shared: nn.Module,
        channels: int,
        reduce: Reduce = "mean",
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

    The layers are those of `DSSLayer`. The last states are pooled over each subgraph to
    a state of its root, and these over each graph, both by a mean. DSS-GNN is at most
    as powerful as the test GSWL.

    Difference from the published code: `EgoNets` leaves out nodes outside of the
    egonet. The published code has these as isolated nodes, as `MaskedEgoNets` does.

    Args:
        start: Computes the initial states; see `SubgraphGNN`.
        convs: For each layer, the GNN inside the subgraphs and the GNN on the graph.
        channels: Width of the states.
        reduce: How states are pooled, in the layers and in the readout.
    """
    layers = [DSSLayer(*pair, channels, reduce) for pair in convs]
    return SubgraphGNN(start, layers, LastReadout(reduce), channels)
