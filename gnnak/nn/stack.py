"""Several convs, one after the other, as one base GNN."""

from collections.abc import Sequence

from torch import Tensor, nn

from gnnak.errors import OptionError
from gnnak.nn.calling import try_out
from gnnak.nn.mlp import batch_norm


class Stack(nn.Module):
    r"""Convs of one width: $x \leftarrow x + \text{ReLU}(\text{BN}(\text{conv}(x)))$.

    All convs read the same edge attributes.

    Args:
        convs: GNNs that map (x, edge_index[, edge_attr]) at one constant width.
        channels: That width.
        dropout: Share of entries dropped after each ReLU.

    >>> from torch_geometric.nn import SAGEConv
    >>> Stack([SAGEConv(8, 8), SAGEConv(8, 8)], channels=8).num_layers
    2
    """

    def __init__(
        self, convs: Sequence[nn.Module], channels: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if not convs:
            raise OptionError("a Stack has no convs; give at least one.")
        self.in_channels = channels
        self.convs = nn.ModuleList(convs)
        self.norms = nn.ModuleList(batch_norm(channels) for _ in convs)
        self.after = nn.Sequential(nn.ReLU(), nn.Dropout(dropout))
        self.callings = [
            try_out(conv, channels, f"channels of the Stack, {channels}")
            for conv in convs
        ]

    @property
    def num_layers(self) -> int:
        """Number of convs, the paper's m."""
        return len(self.convs)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Run all convs; `batch` goes to those that want it."""
        for conv, norm, calling in zip(
            self.convs, self.norms, self.callings, strict=True
        ):
            out = calling(conv, x, edge_index, edge_attr, batch)
            x = x + self.after(norm(out))
        return x
