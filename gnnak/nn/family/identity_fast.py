"""ID-GNN-Fast: a GNN on the graph, with counts of closed walks as node features."""

from collections.abc import Sequence

from torch import Tensor, nn

from gnnak.nn.conv import as_conv
from gnnak.nn.family.gnn import SubgraphGNN
from gnnak.nn.norm import BatchNorm
from gnnak.nn.padding import on_graph
from gnnak.subgraphs.pairs import closed_walks
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count


class ClosedWalkEncoder(nn.Module):
    r"""Add the weights of closed walks to node states.

    $$x_v \leftarrow x_v + W\,
        [\hat{A}_{vv}, (\hat{A}^2)_{vv}, \dots, (\hat{A}^K)_{vv}], \qquad
        \hat{A} = D^{-1/2} (A + I) D^{-1/2}$$

    Args:
        channels: Width of the states.
        num_steps: Largest length of a walk, $K$.
    """

    synchronises = True
    """The walks are computed on whole graphs, whose nodes are counted."""

    def __init__(self, channels: int, num_steps: int = 10) -> None:
        super().__init__()
        self.num_steps = check_count("num_steps", num_steps, least=1)
        self.linear = nn.Linear(num_steps, channels, bias=False)

    def forward(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Return node states, [n, c].

        Args:
            x: Node states, [n, c].
            subgraphs: The rooted subgraphs, one per node; only used as a cache.
            edge_index: Directed edges, [2, e].
            batch: Index of the graph that each node is in, [n]; None = all nodes are
                in one graph.
        """
        walks = closed_walks(subgraphs, edge_index, batch, self.num_steps)
        return x + self.linear(walks.to(x.dtype))


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


def id_fast_gnn(
    convs: Sequence[nn.Module], channels: int, num_steps: int = 10
) -> SubgraphGNN:
    """Build ID-GNN-Fast (You et al., 2021).

    A GNN runs on the graph, not on subgraphs. The weights of closed walks are added to
    its input (`ClosedWalkEncoder`), and its output is normalised. Difference from the
    published code: the weights are mapped by a Linear and added, not concatenated.

    Args:
        convs: One conv per layer, of equal input and output width.
        channels: Width of the states.
        num_steps: Largest length of a walk.
    """
    start = ClosedWalkEncoder(channels, num_steps)
    layers = [GraphLayer(conv, channels) for conv in convs]
    return SubgraphGNN(start, layers, NodeReadout(normalise=True), channels)
