"""Ego-GNN: average each node over the egonets that contain it, then run a conv."""

from collections.abc import Sequence

from torch import Tensor, nn

from gnnak.graphs.ragged import counts_of
from gnnak.nn.copies import lift, pool_context
from gnnak.nn.family.gnn import GraphLayer, SubgraphGNN, node_readout, node_start
from gnnak.nn.norm import on_graph
from gnnak.subgraphs.rooted import RootedSubgraphs


class EgoLayer(nn.Module):
    r"""One layer of Ego-GNN.

    $$\bar{x}_v = W \frac{1}{|N[v]|} \sum_{u \in N[v]} (\hat{A}_u^2\, x)_v, \qquad
        \hat{A}_u = D_u^{-1/2} (A_u + I) D_u^{-1/2}$$

    $A_u$ is the adjacency matrix of the 1-hop egonet of $u$, and $D_u$ has the
    in-degrees of $A_u + I$. $N[v]$ is the set of roots $u$ whose egonet contains $v$.
    On an undirected graph, these are $v$ and its neighbours. A conv on the graph
    follows: $x \leftarrow \text{ReLU}(\text{BN}(\text{CONV}(\bar{x})))$.

    Args:
        conv: The GNN that runs on the graph.
        channels: Width of the states.
    """

    def __init__(self, conv: nn.Module, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, channels)
        self.after = GraphLayer(conv, channels)

    def forward(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Compute new node states, [n, c], from node states `x`, [n, c].

        `subgraphs` are the 1-hop egonets; other arguments as in `InsideLayer`.
        """
        z = lift(x, subgraphs)
        for _ in range(2):
            z = _propagate(z, subgraphs)
        mean = pool_context(z, subgraphs, subgraphs.known_num_nodes, "mean")
        with on_graph(subgraphs.real):
            mean = self.linear(mean)
        return self.after(mean, subgraphs, edge_index, edge_attr)


def _propagate(z: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
    source, target = subgraphs.edge_index
    degree = counts_of(target, subgraphs.num_copies).to(z.dtype) + 1
    scaled = degree.rsqrt()[:, None] * z
    summed = scaled.index_add(0, target, scaled.index_select(0, source))
    return degree.rsqrt()[:, None] * summed


def ego_gnn(convs: Sequence[nn.Module], channels: int) -> SubgraphGNN:
    """Build Ego-GNN (Sandfelder et al., 2021), which runs on the egonets `EgoNets(1)`.

    The layers are `EgoLayer`s. Ego-GNN does not mark the root, and is at most as
    powerful as GSWL, a subgraph Weisfeiler-Leman test of Zhang et al. (2023).

    Args:
        convs: One conv per layer, of equal input and output width.
        channels: Width of the states.
    """
    layers = [EgoLayer(conv, channels) for conv in convs]
    return SubgraphGNN(node_start, layers, node_readout, channels)
