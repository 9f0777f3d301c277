"""ID-GNN: message passing in which the root of each subgraph has extra weights."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.functional import normalize

from gnnak.nn.copies import at_centroid, inside, to_nodes
from gnnak.nn.family.gnn import GraphLayer, SubgraphGNN, as_conv
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs.encodings import StructuralEncoding
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_count


class IDLayer(nn.Module):
    r"""One layer of ID-GNN (identity-aware GNN).

    $h_{u,v}$ is the state of node $v$ in the subgraph rooted at $u$:

    $$h_{u,v} \leftarrow \text{ReLU}\big(\text{BN}\big(
        \text{CONV}_{\text{inside}}(h)_{u,v}
        + [u = v]\, \text{CONV}^{\text{id}}_{\text{inside}}(h)_{u,u}\big)\big)$$

    Args:
        conv: The GNN for all nodes of a subgraph (CONV).
        root_conv: The GNN with the extra weights of the root (CONV with "id").
        channels: Width of the states.
    """

    def __init__(self, conv: nn.Module, root_conv: nn.Module, channels: int) -> None:
        super().__init__()
        self.conv = as_conv(conv, channels)
        self.root_conv = as_conv(root_conv, channels)
        self.norm = BatchNorm(channels)

    def forward(
        self,
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Compute new states of node copies, [m, c]; arguments as in `InsideLayer`."""
        out = inside(self.conv, h, subgraphs, edge_attr)
        extra = inside(self.root_conv, h, subgraphs, edge_attr)
        extra = at_centroid(extra, subgraphs)
        return self.norm(out.index_add(0, subgraphs.centroid, extra)).relu()


def root_readout(states: Sequence[Tensor], subgraphs: RootedSubgraphs) -> Tensor:
    r"""Return $h_{u,u} / \lVert h_{u,u} \rVert_2$ of each root $u$, [n, c]."""
    x = normalize(at_centroid(states[-1], subgraphs))
    return to_nodes(x, subgraphs, subgraphs.known_num_nodes)


def normalised_readout(states: Sequence[Tensor], _: RootedSubgraphs) -> Tensor:
    """Return the last layer's node states, each divided by its L2 norm, [n, c]."""
    return normalize(states[-1])


def id_gnn(
    start: nn.Module, convs: Sequence[tuple[nn.Module, nn.Module]], channels: int
) -> SubgraphGNN:
    """Build ID-GNN (You et al., 2021), on egonets.

    The layers are `IDLayer`s. The final state of a node is its state in its own
    subgraph. In a graph task, node states are summed over the graph. ID-GNN is at most
    as powerful as SWL(VS), a subgraph Weisfeiler-Leman test of Zhang et al. (2023).

    Differences from the authors' code: for convs other than GIN, the authors' code
    adds the root's extra term before it sums the messages. Its convs ignore edge
    attributes. It extracts egonets with as many hops as there are layers. With more
    than 4 layers, it uses whole graphs.

    Args:
        start: Computes the initial states; see `SubgraphGNN`.
        convs: For each layer, the GNN for all nodes and the GNN for the root.
        channels: Width of the states.
    """
    layers = [IDLayer(*pair, channels) for pair in convs]
    return SubgraphGNN(start, layers, root_readout, channels)


class ClosedWalkEncoder(nn.Module):
    """Map the weights of `closed_walks` by a Linear, and add them to node states."""

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
        """Return new node states, [n, c]; `subgraphs` only caches weights of walks."""
        (closed_walks,) = self.encodings
        walks = closed_walks(subgraphs, edge_index, batch)
        return x + self.linear(walks.to(x.dtype))


def id_fast_gnn(
    convs: Sequence[nn.Module], channels: int, num_steps: int = 10
) -> SubgraphGNN:
    """Build ID-GNN-Fast (You et al., 2021).

    A GNN runs on the graph, not on subgraphs. A `ClosedWalkEncoder` adds the weights of
    closed walks to the input, and the output is normalised. Difference from the
    authors' code: the weights, mapped by a Linear, are added instead of concatenated.

    Args:
        convs: One conv per layer, of equal input and output width.
        channels: Width of the states.
        num_steps: Length of the longest walks.
    """
    start = ClosedWalkEncoder(channels, num_steps)
    layers = [GraphLayer(conv, channels) for conv in convs]
    return SubgraphGNN(start, layers, normalised_readout, channels)
