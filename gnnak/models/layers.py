"""One outer layer of the network, plain or uplifted."""

from collections.abc import Sequence

from torch import Tensor, nn

from gnnak.errors import SubgraphError
from gnnak.nn.calling import try_out
from gnnak.nn.mlp import batch_norm
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs


class Kernel(nn.Module):
    """A GNN with its own encoder of the raw edge attributes.

    Args:
        gnn: A `GNNAK` layer, run on the rooted subgraphs, or any plain GNN, run on the
            whole graph.
        channels: Width of the node states, in and out.
        edge_encoder: From raw edge attributes to edge states; None for GNNs that read
            none.
    """

    def __init__(
        self, gnn: nn.Module, channels: int, edge_encoder: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.gnn = gnn
        self.edge_encoder = edge_encoder
        self.calling = (
            None
            if isinstance(gnn, GNNAK)
            else try_out(gnn, channels, f"channels of the network, {channels}")
        )

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor,
        subgraphs: RootedSubgraphs | None,
    ) -> Tensor:
        """New node states, [n, c]."""
        edges = None
        if self.edge_encoder is not None:
            edges = self.edge_encoder(edge_attr, edge_index.size(1))
        if self.calling is not None:
            return self.calling(self.gnn, x, edge_index, edges, batch)
        if subgraphs is None:
            raise SubgraphError(
                "an uplifted layer got no rooted subgraphs; build the network with an "
                "extractor, or hand subgraphs in."
            )
        return self.gnn(x, subgraphs, edges)


class OuterLayer(nn.Module):
    r"""$x \leftarrow x + \text{dropout}(\text{ReLU}(\text{BN}(\sum_b \text{b}(x))))$.

    Args:
        kernels: What is summed: as a rule one kernel; an uplifted one and a plain one
            where the experiment adds a plain conv on the whole graph.
        channels: Width of the node states.
        dropout: Share of entries dropped after the ReLU.
    """

    def __init__(
        self, kernels: Sequence[Kernel], channels: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.kernels = nn.ModuleList(kernels)
        self.after = nn.Sequential(batch_norm(channels), nn.ReLU(), nn.Dropout(dropout))

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor,
        subgraphs: RootedSubgraphs | None,
    ) -> Tensor:
        """New node states, [n, c]."""
        out = sum(
            kernel(x, edge_index, edge_attr, batch, subgraphs)
            for kernel in self.kernels
        )
        return x + self.after(out)
