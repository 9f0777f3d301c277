"""`SubgraphGNN`: a GNN on states of node copies, and the parts of its layers."""

from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor, nn

from gnnak.errors import OptionError, SubgraphError, WidthError
from gnnak.nn.calling import try_out
from gnnak.nn.copies import lift, lookup, pool_context, pool_subgraph, to_nodes
from gnnak.nn.mlp import mlp
from gnnak.nn.norm import BatchNorm, make_norm, on_copies, on_graph
from gnnak.nn.recompute import recomputed
from gnnak.nn.uplift import check_subgraphs
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.encodings import (
    StructuralEncoding,
    root_mark,
    short_distance,
    structural_encodings,
)
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.streamed import StreamedSubgraphs
from gnnak.typing import (
    PAIRS,
    Norm,
    PairEncoding,
    ReadoutOrder,
    Reduce,
    check_choice,
    check_count,
    check_share,
)


class SubgraphGNN(nn.Module):
    r"""A subgraph GNN: initial states, layers on node copies, and a readout to nodes.

    $$h^0 = \text{START}(x), \qquad h^{t} = \text{LAYER}_t(h^{t-1}), \qquad
        x' = \text{READOUT}(h^0, \dots, h^L)$$

    Functions such as `ds_gnn` and `sswl_gnn` build these compositions. A later pool of
    $x'$ over the nodes of a graph gives the state of the graph.

    Args:
        start: Maps (x, subgraphs, edge_index, batch) to the initial states $h^0$ of
            node copies, [m, c], or of nodes, [n, c], for layers that compute node
            states. Its attribute `encodings`, if any, lists the structural encodings
            that it reads. See `gnnak.nn.family.gnn.PairEncoder`.
        layers: Each maps (h, subgraphs, edge_index, edge_attr) to new states.
        readout: Maps ([h^0, ..., h^L], subgraphs) to node states, [n, out_channels].
        out_channels: Width of the node states after the readout.

    Attributes:
        recompute: In training, save only the states between layers for the backward
            pass, which recomputes the activations inside each layer.
    """

    def __init__(
        self,
        start: Callable[..., Tensor],
        layers: Sequence[nn.Module],
        readout: Callable[..., Tensor],
        out_channels: int,
    ) -> None:
        super().__init__()
        if not layers:
            raise OptionError("a SubgraphGNN has no layers; give at least one.")
        self.start = start
        self.layers = nn.ModuleList(layers)
        self.readout = readout
        self.out_channels = out_channels
        self.recompute = False

    @property
    def encodings(self) -> tuple[StructuralEncoding, ...]:
        """The structural encodings that the network reads; see `WithEncodings`."""
        return getattr(self.start, "encodings", ())

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        subgraphs: RootedSubgraphs | None = None,
    ) -> Tensor:
        """Compute node states, [n, out_channels].

        Args:
            x: Node states, [n, c].
            edge_index: Directed edges, [2, e].
            edge_attr: Edge attributes, [e, c] or [e]; None if there are none.
            batch: Index of the graph that each node is in, [n]. If None, all nodes are
                in one graph.
            subgraphs: The rooted subgraphs, one per node.
        """
        if subgraphs is None:
            raise SubgraphError(
                "a subgraph GNN got no rooted subgraphs; build the network with an "
                "extractor, or pass subgraphs."
            )
        check_subgraphs(subgraphs, x, edge_attr)
        some = subgraphs.has_some_roots(x.size(0))
        if some or isinstance(subgraphs, SampledSubgraphs | StreamedSubgraphs):
            raise SubgraphError(
                "a subgraph GNN got the rooted subgraphs of some nodes, but it reads "
                "the subgraphs of all nodes; leave SubgraphDrop and roots out, or use "
                "GNN-AK, such as gin-ak+-s."
            )
        recompute = self.recompute and self.training
        with on_copies(subgraphs):
            states = [self.start(x, subgraphs, edge_index, batch)]
            for layer in self.layers:
                run = partial(recomputed, layer) if recompute else layer
                states.append(run(states[-1], subgraphs, edge_index, edge_attr))
            return self.readout(states, subgraphs)


class PairEncoder(nn.Module):
    r"""Add learned encodings of (root, node) to node states.

    The state of node $v$ in the subgraph rooted at $u$ becomes

    $$h_{u,v} = x_v + \text{Emb}([u = v]) + \text{Emb}(\min(d(u, v), D))
        + W_1 P_{uv} + W_2 R_{uv} + W_3 C_{uv}$$

    with one term for each name in `pairs`: "mark" (is the node the root?), "distance"
    (shortest path), "rrwp" (random walk probabilities, see `rrwp`), "resistance" (see
    `resistance`) and "distance-counts" (see `distance_counts`). Each $W$ is a Linear
    without bias. Dropout applies to these terms, not to $x_v$.

    Args:
        pairs: Names of the encodings. If empty, $h_{u,v} = x_v$.
        channels: Width of the states.
        max_distance: Largest distance $D$ with an embedding of its own; larger
            distances, and nodes without a path to the root, share the embedding of $D$.
            Also the largest distance that "distance-counts" distinguishes.
        num_steps: Number of steps of the random walks.
        dropout: Dropout probability of the encodings.
    """

    def __init__(
        self,
        pairs: Sequence[PairEncoding],
        channels: int,
        max_distance: int = 5,
        num_steps: int = 20,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for name in pairs:
            check_choice("a pair encoding", name, PAIRS)
        if len(set(pairs)) != len(pairs):
            raise OptionError(f"pairs is {tuple(pairs)!r}; name each encoding once.")
        self.max_distance = check_count("max_distance", max_distance, least=1)
        self.num_steps = check_count("num_steps", num_steps, least=1)
        self.pairs = tuple(pairs)
        columns = {each.name: each.channels for each in self.encodings}
        self.parts = nn.ModuleDict()
        for name in pairs:
            if name in columns:
                self.parts[name] = nn.Linear(columns[name], channels, bias=False)
            else:
                size = 2 if name == "mark" else max_distance + 1
                self.parts[name] = nn.Embedding(size, channels)
        check_share("dropout", dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Return the initial states of all node copies, [m, c].

        `x`, [n, c], are node states; other arguments as in `SubgraphGNN.forward`.
        """
        h = lift(x, subgraphs)
        structural = {encoding.name: encoding for encoding in self.encodings}
        for name, part in self.parts.items():
            if name in structural:
                rows = structural[name](subgraphs, edge_index, batch)
                rows = rows.reshape(-1, structural[name].channels)
                h = h + self.dropout(part(rows.to(x.dtype)))
                continue
            if name == "mark":
                index = root_mark(subgraphs)
            else:
                index = short_distance(subgraphs, self.max_distance)
            h = h + self.dropout(lookup(part.get_parameter("weight"), index))
        return h

    @property
    def encodings(self) -> tuple[StructuralEncoding, ...]:
        """The structural encodings in `self.pairs`.

        If the extractor has not computed these (see `WithEncodings`), the forward pass
        computes them, and synchronises with a GPU.
        """
        return structural_encodings(self.pairs, self.num_steps, self.max_distance)

    def extra_repr(self) -> str:
        """Return the options of the encoder, as text for `repr`."""
        return f"pairs={self.pairs}, max_distance={self.max_distance}"


def node_start(x: Tensor, *_: object) -> Tensor:
    """A `start` for layers that compute node states: return node states unchanged."""
    return x


class Conv(nn.Module):
    """A GNN that first encodes the edge attributes, if it has an edge encoder.

    The layers of the subgraph GNNs in `gnnak.nn.family` are built from `Conv` modules.

    Args:
        gnn: Any module that maps `(x, edge_index[, edge_attr or edge_weight][, batch])`
            to node states of the same width as x.
        channels: Width of the node states.
        edge_encoder: Maps raw edge attributes to edge states, called as
            `edge_encoder(edge_attr, num_edges)`. If None, the GNN gets the raw
            attributes.
        reads_edges: Whether the GNN gets the edge attributes. If False, these are
            ignored.

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
            x: States of nodes or of node copies, [n, channels].
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


class GraphLayer(nn.Module):
    """A layer that runs a conv on the graph, then BatchNorm and ReLU."""

    def __init__(self, conv: nn.Module, channels: int) -> None:
        super().__init__()
        self.conv = as_conv(conv, channels)
        self.norm = BatchNorm(channels)

    def forward(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Compute new node states, [n, c], from node states `x`, [n, c]."""
        with on_graph(subgraphs.real):
            return self.norm(self.conv(x, edge_index, edge_attr)).relu()


def node_readout(states: Sequence[Tensor], _: RootedSubgraphs) -> Tensor:
    """Readout: return the node states of the last layer, [n, c]."""
    return states[-1]


class LastReadout(nn.Module):
    r"""Pool the last layer's states $h_{u,v}$ (root u, node v) to one state per node.

    $$\text{"VS"}: x_u = \text{POOL}_{v}\, h_{u,v} \qquad
        \text{"SV"}: x_v = \text{POOL}_{u}\, h_{u,v}$$
    """

    def __init__(self, reduce: Reduce = "mean", order: ReadoutOrder = "VS") -> None:
        super().__init__()
        self.reduce: Reduce = reduce
        self.order = order

    def forward(self, states: Sequence[Tensor], subgraphs: RootedSubgraphs) -> Tensor:
        """Return node states, [n, c]; arguments as in `NestedReadout`."""
        h, num_nodes = states[-1], subgraphs.known_num_nodes
        if self.order == "SV":
            return pool_context(h, subgraphs, num_nodes, self.reduce)
        pooled = pool_subgraph(h, subgraphs, self.reduce)
        return to_nodes(pooled, subgraphs, num_nodes)


class MLPReadout(LastReadout):
    r"""`LastReadout`, followed by $\text{ReLU}(\text{BN}(\text{MLP}(x)))$."""

    def __init__(
        self,
        channels: int,
        reduce: Reduce = "sum",
        order: ReadoutOrder = "VS",
        norm: Norm = "batch",
    ) -> None:
        super().__init__(reduce, order)
        self.mlp = mlp([channels, channels, channels], norm=norm)
        self.norm = make_norm(norm, channels)

    def forward(self, states: Sequence[Tensor], subgraphs: RootedSubgraphs) -> Tensor:
        """Return node states, [n, c]; arguments as in `NestedReadout`."""
        pooled = super().forward(states, subgraphs)
        with on_graph(subgraphs.real):
            return self.norm(self.mlp(pooled)).relu()
