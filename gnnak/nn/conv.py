"""`Conv`: a GNN of equal input and output width, with its own edge encoder."""

from torch import Tensor, nn

from gnnak.errors import WidthError
from gnnak.nn.calling import try_out


class Conv(nn.Module):
    """Encode the edge attributes with an edge encoder, if there is one; then run a GNN.

    The layers of the subgraph GNNs in `gnnak.nn.family` are built from `Conv` modules.

    Args:
        gnn: Any module that maps `(x, edge_index[, edge_attr or edge_weight][, batch])`
            to node states of the same width as x.
        channels: Width of the node states.
        edge_encoder: Maps raw edge attributes to edge states, called as
            `edge_encoder(edge_attr, num_edges)`; None = pass the attributes on as they
            are.
        reads_edges: Whether the GNN gets the edge attributes; False = drop them.

    >>> import torch
    >>> from torch_geometric.nn import SAGEConv
    >>> conv = Conv(SAGEConv(8, 8), channels=8)
    >>> conv(torch.rand(2, 8), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 8])
    """

    def __init__(
        self,
        gnn: nn.Module,
        channels: int,
        edge_encoder: nn.Module | None = None,
        reads_edges: bool = True,
    ) -> None:
        super().__init__()
        self.channels = channels
        self.calling = try_out(gnn, channels, f"channels of the Conv, {channels}")
        if self.calling.out_channels != channels:
            raise WidthError(
                f"{self.calling.name} maps width {channels} to "
                f"{self.calling.out_channels}; build it with {channels} channels, in "
                "and out."
            )
        self.gnn = gnn
        self.edge_encoder = edge_encoder
        self.reads_edges = reads_edges

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Compute new states, [n, channels].

        Args:
            x: States of nodes or of node copies (nodes as they occur in one rooted
                subgraph), [n, channels].
            edge_index: Directed edges, [2, e].
            edge_attr: Edge attributes, [e, c] or [e]; None if there are none.
            batch: Index of the graph that each node is in, [n]; passed on only to GNNs
                that have an argument `batch`.
        """
        if not self.reads_edges:
            edge_attr = None
        elif self.edge_encoder is not None:
            edge_attr = self.edge_encoder(edge_attr, edge_index.size(1))
        return self.calling(self.gnn, x, edge_index, edge_attr, batch)


def as_conv(gnn: nn.Module, channels: int) -> Conv:
    """Return `gnn` itself if it is a `Conv`, else a `Conv` around it."""
    return gnn if isinstance(gnn, Conv) else Conv(gnn, channels)
