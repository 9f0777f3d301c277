"""ID-GNN-Fast: a GNN on the graph, with counts of closed walks as node features."""

from collections.abc import Sequence

from torch import Tensor, nn

from gnnak.nn.family.gnn import SubgraphGNN
from gnnak.nn.family.on_nodes import GraphLayer, NodeReadout
from gnnak.subgraphs.encodings import StructuralEncoding
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

    Attributes:
        encodings: The weights of closed walks, as the only structural encoding. If the
            subgraphs do not have it (see `WithEncodings`), the forward pass computes
            it, which synchronises with a GPU.
    """

    def __init__(self, channels: int, num_steps: int = 10) -> None:
        super().__init__()
        check_count("num_steps", num_steps, least=1)
        self.encodings = (StructuralEncoding("closed-walks", num_steps),)
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
        (closed_walks,) = self.encodings
        walks = closed_walks(subgraphs, edge_index, batch)
        return x + self.linear(walks.to(x.dtype))


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
