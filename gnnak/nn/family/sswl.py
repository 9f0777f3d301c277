"""SSWL: messages inside each subgraph and across the subgraphs of adjacent roots."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gnnak.nn.copies import across, at_own_centroid, inside
from gnnak.nn.family.gnn import MLPReadout, SubgraphGNN, as_conv
from gnnak.nn.mlp import mlp
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import ReadoutOrder, Reduce


class SSWLLayer(nn.Module):
    r"""One layer of SSWL.

    $h_{u,v}$ is the state of node $v$ in the subgraph rooted at $u$:

    $$h_{u,v} \leftarrow \text{ReLU}\big(\text{BN}\big(
        \text{CONV}_{\text{inside}}(h)_{u,v}
        + \text{CONV}_{\text{across}}(h)_{u,v}\big)\big)$$

    $\text{CONV}_{\text{inside}}$ sends messages from $h_{u,v'}$ to $h_{u,v}$ for every
    edge $v' \to v$. $\text{CONV}_{\text{across}}$ sends messages from $h_{u',v}$ to
    $h_{u,v}$ for every edge $u' \to u$.

    Args:
        conv: The GNN that runs inside each rooted subgraph.
        across: The GNN that runs across the subgraphs of adjacent roots.
        channels: Width of the states.
        whole: Whether the subgraphs will always be whole graphs (`WholeGraphs`). If so,
            the edges across subgraphs are found faster.
    """

    def __init__(
        self, conv: nn.Module, across: nn.Module, channels: int, whole: bool = False
    ) -> None:
        super().__init__()
        self.whole = whole
        self.conv = as_conv(conv, channels)
        self.across = as_conv(across, channels)
        self.norm = BatchNorm(channels)

    def forward(
        self,
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Compute new states of node copies, [m, c]; arguments as in `InsideLayer`."""
        return self.norm(self.messages(h, subgraphs, edge_index, edge_attr)).relu()

    def messages(
        self,
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None,
    ) -> Tensor:
        """Return the sum in the layer's equation, the input of BatchNorm, [m, c]."""
        own = inside(self.conv, h, subgraphs, edge_attr)
        return own + across(
            self.across, h, subgraphs, edge_index, edge_attr, self.whole
        )

    @property
    def synchronises(self) -> bool:
        """Whether a forward pass synchronises, to count the edges across subgraphs."""
        return not self.whole


def sswl_gnn(
    start: nn.Module,
    layers: Sequence[nn.Module],
    channels: int,
    reduce: Reduce = "sum",
    order: ReadoutOrder = "VS",
) -> SubgraphGNN:
    """Build SSWL or SSWL+ (Zhang et al., 2023, "A Complete Expressiveness Hierarchy").

    Both networks run on whole graphs, with the distance to the root as input. After the
    last layer, `MLPReadout` pools each subgraph. In a graph task, a mean over the roots
    of each graph follows. Both networks are at most as powerful as SSWL, a subgraph
    Weisfeiler-Leman test of the same paper.

    Args:
        start: Computes the initial states; see `SubgraphGNN`.
        layers: Layers of the kind `SSWLLayer` or `SSWLPlusLayer`.
        channels: Width of the states.
        reduce: How the readout pools the states of each subgraph.
        order: Whether the readout first pools each subgraph ("VS") or the subgraphs of
            each node ("SV").
    """
    readout = MLPReadout(channels, reduce, order)
    return SubgraphGNN(start, layers, readout, channels)


class SSWLPlusLayer(SSWLLayer):
    r"""One layer of SSWL+.

    $h_{u,v}$ is the state of node $v$ in the subgraph rooted at $u$:

    $$h_{u,v} \leftarrow \text{ReLU}\big(\text{BN}\big(
        \text{CONV}_{\text{inside}}(h)_{u,v}
        + \text{CONV}_{\text{across}}(h)_{u,v}
        + \text{MLP}((1 + \epsilon) h_{u,v} + h_{v,v})\big)\big)$$

    The convs are those of `SSWLLayer`, and $\epsilon$ is learned. SSWL+ is as powerful
    as SSWL, but learns better.

    Args:
        conv: The GNN that runs inside each rooted subgraph.
        across: The GNN that runs across the subgraphs of adjacent roots.
        channels: Width of the states.
        whole: Whether the subgraphs will always be whole graphs; see `SSWLLayer`.
    """

    def __init__(
        self, conv: nn.Module, across: nn.Module, channels: int, whole: bool = False
    ) -> None:
        super().__init__(conv, across, channels, whole)
        self.eps = nn.Parameter(torch.zeros(()))
        self.mlp = mlp([channels, channels, channels])

    def messages(
        self,
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None,
    ) -> Tensor:
        """Return the sum in the layer's equation, the input of BatchNorm, [m, c]."""
        sswl = super().messages(h, subgraphs, edge_index, edge_attr)
        own = at_own_centroid(h, subgraphs, subgraphs.known_num_nodes)
        return sswl + self.mlp((1 + self.eps) * h + own)
