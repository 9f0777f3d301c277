"""DS-GNN: the subgraphs of a graph as a set, each encoded by the same GNN."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gnnak.nn.copies import pool_subgraph, to_nodes
from gnnak.nn.family.gnn import SubgraphGNN
from gnnak.nn.family.inside import InsideLayer
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Reduce


class DSReadout(nn.Module):
    r"""Pool all states of each subgraph, and map the result to a state of the root.

    $$x_u = \text{ELU}\Big(W \,\text{POOL}_{v}\,
        [h^0_{u,v} \,\Vert\, \dots \,\Vert\, h^L_{u,v}] + b\Big)$$

    Args:
        in_channels: Width of the concatenated states.
        out_channels: Width of $x_u$.
        reduce: What POOL is, "sum" or "mean".
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
    start: nn.Module,
    convs: Sequence[nn.Module],
    channels: int,
    reduce: Reduce = "sum",
) -> SubgraphGNN:
    r"""Build DS-GNN of ESAN (Bevilacqua et al., 2022), in its form for ZINC.

    $h_{u,v}$ is the state of node $v$ in the subgraph rooted at $u$. Each layer runs a
    base GNN inside each rooted subgraph (`InsideLayer`). A DeepSets network pools the
    subgraphs:

    $$h^t_{u,v} = \text{ReLU}(\text{BN}(\text{CONV}_{\text{inside}}(h^{t-1})_{u,v})),
        \qquad x_u = \text{ELU}\big(W \,\text{POOL}_v\,
        [h^0_{u,v} \Vert \dots \Vert h^L_{u,v}] + b\big)$$

    A mean of $x_u$ over the roots $u$ of a graph follows. DS-GNN is at most as powerful
    as the test SWL(VS).

    Difference from the published code: `EgoNets` leaves out nodes outside of the
    egonet. The published code has these as isolated nodes, as `MaskedEgoNets` does.

    Args:
        start: Computes the initial states; see `SubgraphGNN`.
        convs: One conv per layer, of equal input and output width.
        channels: Width of the states.
        reduce: How a subgraph is pooled.
    """
    layers = [InsideLayer(conv, channels) for conv in convs]
    readout = DSReadout((len(layers) + 1) * channels, channels, reduce)
    return SubgraphGNN(start, layers, readout, channels)
