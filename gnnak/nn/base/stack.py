"""`Stack`: several convs in sequence, to use as one GNN."""

from collections.abc import Sequence

from torch import Tensor, nn

from gnnak.errors import OptionError, WidthError
from gnnak.nn.calling import try_out
from gnnak.nn.norm import BatchNorm


class Stack(nn.Module):
    r"""Run several convs in sequence, each with BatchNorm, ReLU and a residual sum.

    For each conv: $x \leftarrow x + \text{ReLU}(\text{BN}(\text{conv}(x)))$. All convs
    get the same edge attributes, or the same edge weights.

    Args:
        convs: GNNs that map (x, edge_index[, edge_attr or edge_weight]) to node states
            of the same width as x.
        channels: Width of the node states.
        dropout: Dropout probability after each ReLU.

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
        self.callings = [
            try_out(conv, channels, f"channels of the Stack, {channels}")
            for conv in convs
        ]
        self.convs = nn.ModuleList(convs)
        self.norms = nn.ModuleList(BatchNorm(channels) for _ in convs)
        self.after = nn.Sequential(nn.ReLU(), nn.Dropout(dropout))
        for calling in self.callings:
            if calling.out_channels != channels:
                raise WidthError(
                    f"{calling.name} in a Stack of width {channels} returns states of "
                    f"width {calling.out_channels}; build it with {channels} output "
                    "channels."
                )

    @property
    def num_layers(self) -> int:
        """Number of convs in the stack."""
        return len(self.convs)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Compute new node states, [n, c].

        Args:
            x: Node states, [n, c].
            edge_index: Directed edges, [2, e].
            edge_attr: Edge states, [e, c'], where c' is the width that the convs take.
            edge_weight: One weight per edge, [e], for convs that read edge weights
                instead of edge states.
            batch: Index of the graph that each node is in, [n]; passed only to convs
                that have an argument `batch`.
        """
        if edge_attr is not None and edge_weight is not None:
            raise OptionError(
                "a Stack got both edge_attr and edge_weight; give only one of them."
            )
        edges = edge_weight if edge_attr is None else edge_attr
        for conv, norm, calling in zip(
            self.convs, self.norms, self.callings, strict=True
        ):
            out = calling(conv, x, edge_index, edges, batch)
            x = x + self.after(norm(out))
        return x
