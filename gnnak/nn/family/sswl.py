"""SSWL, SSWL+ and Local 2-FGNN: messages inside and across rooted subgraphs."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv

from gnnak.backend import operation
from gnnak.nn.copies import across, at_own_centroid, inside, lift, pool_context
from gnnak.nn.family.gnn import MLPReadout, SubgraphGNN, as_conv
from gnnak.nn.mlp import mlp
from gnnak.nn.norm import BatchNorm, make_norm, on_copies, on_graph
from gnnak.subgraphs.induce import edge_pairs
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Norm, ReadoutOrder, Reduce


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
        self.norm: nn.Module = BatchNorm(channels)

    def forward(
        self,
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Compute new states of node copies, [m, c]; arguments as in `InsideLayer`."""
        with on_copies(subgraphs):
            return self.update_copies(h, subgraphs, edge_index, edge_attr)

    @operation
    def update_copies(
        self,
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None,
    ) -> Tensor:
        """Compute `forward`, where the norms already ignore the padding of copies."""
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
    as SSWL, but has lower errors in the experiments of its paper.

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


class L2FGNNLayer(SSWLLayer):
    r"""One layer of Local 2-FGNN.

    $h_{u,v}$ is the state of node $v$ in the subgraph rooted at $u$:

    $$h_{u,v} \leftarrow \text{ReLU}\Big(\text{BN}\Big(\sum_{i=1}^3
        \text{MLP}_i\big((1 + \epsilon_i) h_{u,v} + s^i_{u,v}\big)\Big)\Big)$$

    $$s^1_{u,v} = \sum_{w \in N(v)} \text{ReLU}(A h_{u,w} + B h_{w,v} + e^1_{wv}),
        \qquad s^2_{u,v} = \sum_{w \in N(u)} \text{ReLU}(A h_{w,v} + B h_{u,w}
        + e^2_{wu}), \qquad s^3_{u,v} = \sum_w h_{w,v}$$

    $e^1$ and $e^2$ are two encodings of the edge attributes, $A$ and $B$ are Linears,
    and $\epsilon_i$ is learned. Each MLP is Linear, BatchNorm, ReLU, Linear, without
    biases. Terms with a pair that is no node copy are left out. Without norm, there are
    no BatchNorms, and the Linears of the MLPs have biases. Without context, the sum has
    only the terms with $i \le 2$.

    Args:
        channels: Width of the states.
        edge_encoders: Two modules that map the edge attributes to $e^1$ and to $e^2$,
            called as `edge_encoder(edge_attr, num_edges)`. If None, the raw attributes,
            [e, c], are $e^1$ and $e^2$.
        whole: Whether the subgraphs will always be whole graphs; see `SSWLLayer`.
        norm: Whether the layer has BatchNorms ("batch") or no norm ("none").
        context: Whether the layer has the term with $s^3$.
    """

    def __init__(
        self,
        channels: int,
        edge_encoders: Sequence[nn.Module] | None = None,
        whole: bool = False,
        norm: Norm = "batch",
        context: bool = True,
    ) -> None:
        super().__init__(_neighbour_sum(), _neighbour_sum(), channels, whole)
        self.norm = make_norm(norm, channels)
        self.edge_encoders = nn.ModuleList(edge_encoders or ())
        self.linear = nn.Linear(channels, channels)
        self.pair_linear = nn.Linear(channels, channels)
        self.context = context
        terms, widths, bias = 2 + context, [channels] * 3, norm == "none"
        self.eps = nn.Parameter(torch.zeros(terms))
        self.mlps = nn.ModuleList(mlp(widths, bias, norm=norm) for _ in range(terms))

    def messages(
        self,
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None,
    ) -> Tensor:
        """Return the sum in the layer's equation, the input of BatchNorm, [m, c]."""
        sums = self.neighbour_sums(h, subgraphs, edge_index, edge_attr)
        if self.context:
            num_nodes = subgraphs.known_num_nodes
            context = pool_context(h, subgraphs, num_nodes, "sum")
            sums.append(lift(context, subgraphs))
        terms = zip(self.mlps, self.eps, sums, strict=True)
        return sum(run((1 + eps) * h + total) for run, eps, total in terms)

    def neighbour_sums(
        self,
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None,
    ) -> list[Tensor]:
        """Return $s^1$ and $s^2$ of the layer's equation, [m, c] each."""
        sent = self.linear(h)
        inner, outer = self.edge_states(h, subgraphs, edge_index, edge_attr)
        return [
            inside(self.conv, sent, subgraphs, inner),
            across(self.across, sent, subgraphs, edge_index, outer, self.whole),
        ]

    def edge_states(
        self,
        h: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None,
    ) -> list[Tensor]:
        r"""Return $B h_{a,b} + e^1_{ab}$ and $B h_{b,a} + e^2_{ab}$ of edges $a \to b$.

        All copies of an edge share these terms, [e, c], of the layer's equation. If the
        pair (a, b) or (b, a) is no node copy, its term is -infinity; ReLU makes it 0.
        """
        pairs, size, states = edge_pairs(subgraphs, edge_index), edge_index.size(1), []
        with on_graph(subgraphs.real):
            encoded = [encode(edge_attr, size) for encode in self.edge_encoders]
        encoded = encoded or [edge_attr, edge_attr]
        for copy, exists, e in zip(pairs.copy, pairs.exists, encoded, strict=True):
            state = self.pair_linear(h.index_select(0, copy))
            state = state if e is None else state + e
            states.append(state.masked_fill(~exists[:, None], float("-inf")))
        return states


def _neighbour_sum() -> nn.Module:
    """Build a GINE that only sums ReLU(x_j + e_ij); backends have kernels for GINE."""
    return GINEConv(nn.Identity(), eps=-1.0)


def l2fgnn(
    start: nn.Module,
    layers: Sequence[nn.Module],
    channels: int,
    reduce: Reduce = "sum",
    norm: Norm = "batch",
) -> SubgraphGNN:
    """Build Local 2-FGNN (Zhang et al., 2024, "Beyond Weisfeiler-Lehman").

    The network runs on whole graphs, with the distance to the root as input. After the
    last layer, `MLPReadout` pools each subgraph. In a graph task, a mean over the roots
    of each graph follows. Local 2-FGNN is at most as powerful as SLFWL(2), a subgraph
    Weisfeiler-Leman test of Zhang et al. (2023).

    Args:
        start: Computes the initial states; see `SubgraphGNN`.
        layers: Layers of the kind `L2FGNNLayer`.
        channels: Width of the states.
        reduce: How the readout pools the states of each subgraph.
        norm: Whether the readout has a BatchNorm ("batch") or no norm ("none").
    """
    readout = MLPReadout(channels, reduce, norm=norm)
    return SubgraphGNN(start, layers, readout, channels)
