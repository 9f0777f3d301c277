"""`InsideLayer`: messages inside each rooted subgraph, and nothing else."""

from torch import Tensor, nn

from gnnak.nn.conv import as_conv
from gnnak.nn.copies import inside
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs.rooted import RootedSubgraphs


class InsideLayer(nn.Module):
    r"""Run a conv inside each rooted subgraph, then BatchNorm and ReLU.

    $h_{u,v}$ is the state of node $v$ in the subgraph rooted at $u$:

    $$h_{u,v} \leftarrow \text{ReLU}(\text{BN}(\text{CONV}_{\text{inside}}(h)_{u,v}))$$

    $\text{CONV}_{\text{inside}}$ sends messages from $h_{u,v'}$ to $h_{u,v}$ for every
    edge $v' \to v$ of the subgraph.

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
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Compute new states of node copies (nodes as seen in one subgraph), [m, c].

        Args:
            h: States of the node copies, [m, c].
            subgraphs: The rooted subgraphs.
            edge_index: Unused: the directed edges of the graph, [2, e].
            edge_attr: Edge attributes, [e, c] or [e]; None if there are none.
        """
        return self.norm(inside(self.conv, h, subgraphs, edge_attr)).relu()
