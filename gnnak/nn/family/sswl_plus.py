"""SSWL+: SSWL and the state of each node in its own subgraph."""

import torch
from torch import Tensor, nn

from gnnak.nn.copies import at_own_centroid
from gnnak.nn.family.sswl import SSWLLayer
from gnnak.nn.mlp import mlp
from gnnak.subgraphs.rooted import RootedSubgraphs


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
        self,
        conv: nn.Module,
        across: nn.Module,
        channels: int,
        whole: bool = False,
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
        """Return the terms of the layer's sum, before BatchNorm, [m, c]."""
        sswl = super().messages(h, subgraphs, edge_index, edge_attr)
        own = at_own_centroid(h, subgraphs, subgraphs.known_num_nodes)
        return sswl + self.mlp((1 + self.eps) * h + own)
