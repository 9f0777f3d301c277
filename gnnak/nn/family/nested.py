"""Nested GNN (NGNN): a GNN inside each rooted subgraph, pooled twice."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gnnak.nn.copies import at_centroid, pool_subgraph, to_nodes
from gnnak.nn.family.ds import InsideLayer
from gnnak.nn.family.gnn import SubgraphGNN
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Reduce


class NestedReadout(nn.Module):
    r"""Concatenate the layers' states, and pool each subgraph to a state of its root.

    $$x_u = \text{POOL}_{v}\, [h^1_{u,v} \,\Vert\, \dots \,\Vert\, h^L_{u,v}]$$

    Args:
        reduce: What POOL is, "sum" or "mean"; None = the state at $v = u$, the root.
    """

    def __init__(self, reduce: Reduce | None = "mean") -> None:
        super().__init__()
        self.reduce = reduce

    def forward(self, states: Sequence[Tensor], subgraphs: RootedSubgraphs) -> Tensor:
        """Return node states, [n, L * c], from the states of all layers.

        Args:
            states: States of the node copies (nodes as they occur in one rooted
                subgraph) before the first and after each layer, [m, c] each.
            subgraphs: The rooted subgraphs.
        """
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
    base GNN inside each rooted subgraph (`InsideLayer`). The concatenated states are
    pooled over each subgraph to a state of its root, and these over each graph:

    $$h^t_{u,v} = \text{ReLU}(\text{BN}(\text{CONV}_{\text{inside}}(h^{t-1})_{u,v})),
        \qquad x_u = \text{POOL}_{v}\, [h^1_{u,v} \Vert \dots \Vert h^L_{u,v}],
        \qquad x_G = \text{POOL}_{u}\, x_u$$

    Without the encoding "resistance", Nested GNN is at most as powerful as the test
    SWL(VS).

    Difference from the published code: encodings of the distance and the resistance to
    the root are added to the input instead of concatenated, the resistance is that in
    the whole graph instead of the subgraph, and the ReLU follows the BatchNorm.

    Args:
        start: Computes the initial states; see `SubgraphGNN`.
        convs: One conv per layer, of equal input and output width.
        channels: Width of the states.
        reduce: How a subgraph is pooled; None = by the state of its root.
    """
    layers = [InsideLayer(conv, channels) for conv in convs]
    return SubgraphGNN(start, layers, NestedReadout(reduce), len(layers) * channels)
