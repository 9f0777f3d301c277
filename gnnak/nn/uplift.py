"""One GNN-AK(+) layer: the file to read beside the paper, section 4."""

from typing import Unpack

import torch
from torch import Tensor, nn

from gnnak.backend import operation
from gnnak.nn.calling import try_out
from gnnak.nn.checks import check_hops, check_states, check_subgraphs
from gnnak.nn.copies import lift, lift_edges
from gnnak.nn.encodings import (
    at_nodes,
    centroid_encoding,
    context_encoding,
    subgraph_encoding,
)
from gnnak.nn.fuse import make_fuse
from gnnak.nn.gates import HopTable, make_gates
from gnnak.nn.mlp import make_transforms
from gnnak.nn.options import PAPER, LayerChanges, LayerOptions
from gnnak.nn.padding import on_copies, on_graph
from gnnak.nn.segment import lookup
from gnnak.nn.sliced import can_slice, sliced_encodings
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import (
    ENCODINGS,
    Encoding,
    HopMode,
    Reduce,
    check_choice,
    check_count,
)


class GNNAK(nn.Module):
    r"""A GNN as kernel: run on every node's rooted subgraph, it makes the node's state.

    With $\text{Emb}(i \mid \text{Sub}[j])$ the base GNN's state of node $i$ in the
    subgraph rooted at $j$, and $\mathbf{d}_{i|j}$ the encoding of the distance between
    them (D2C), one layer of GNN-AK+ is

    $$h_v' = \text{FUSE}\big(h_v^{\text{Centroid}},\,
        h_v^{\text{Subgraph}},\, h_v^{\text{Context}}\big)$$

    $$h_v^{\text{Centroid}} = \text{Emb}(v \mid \text{Sub}[v]) \qquad
      h_v^{\text{Subgraph}} = \text{POOL}_{i \in \text{Sub}[v]}\,
        \sigma(\mathbf{d}_{i|v}) \odot \text{Emb}(i \mid \text{Sub}[v]) \qquad
      h_v^{\text{Context}} = \text{POOL}_{j:\, v \in \text{Sub}[j]}\,
        \sigma(\mathbf{d}_{v|j}) \odot \text{Emb}(v \mid \text{Sub}[j])$$

    GNN-AK is `hop_channels=0, encodings=("centroid", "subgraph")`: no distances, no
    gates, no context.

    Args:
        gnn: The base GNN: any module that maps (x, edge_index[, edge_attr or
            edge_weight][, batch]) to node states, of input width
            `in_channels + hop_channels`, or `in_channels` with `hop="add"` or without
            distances. If its output is not `out_channels` wide, a Linear follows it.
        in_channels: Width of the incoming node states.
        out_channels: Width of the new node states.
        max_hops: Largest distance in the rooted subgraphs that the layer will get.
        hop: How distances augment the states: "concat", as in the paper, or "add"
            (through a Linear), which leaves the base GNN's width alone.
        options: All further options; see `LayerOptions`.
        changes: Single options that differ, such as `hop_channels=0`.

    Attributes:
        max_copies: In evaluation, about how many copies are computed at a time: less
            memory, the same values. None = all at once.

    Difference from the paper: a Linear between $\mathbf{d}$ and the sigmoid (see
    `HopGate`), and the Linear that ends "concat". The paper also lists
    $\mathbf{d}_{i|j}$ among the arguments of FUSE: it is what the next layer adds to
    the states of its copies, and a layer here adds it to its own input.

    >>> from torch_geometric.nn import GCNConv
    >>> from gnnak import EgoNets
    >>> cycle = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> layer = GNNAK(GCNConv(8 + 16, 24), in_channels=8, out_channels=32, max_hops=2)
    >>> layer(torch.rand(4, 8), EgoNets(num_hops=2)(cycle, 4)).shape
    torch.Size([4, 32])
    """

    def __init__(
        self,
        gnn: nn.Module,
        in_channels: int,
        out_channels: int,
        *,
        max_hops: int = 10,
        hop: HopMode = "concat",
        options: LayerOptions = PAPER,
        **changes: Unpack[LayerChanges],
    ) -> None:
        super().__init__()
        options = options.changed(**changes)
        self.in_channels = check_count("in_channels", in_channels, least=1)
        self.out_channels = check_count("out_channels", out_channels, least=1)
        self.max_hops = check_count("max_hops", max_hops)
        check_choice("hop", hop, ("concat", "add"))
        self.hop: HopMode = hop
        self.options = options
        self.encodings = options.encodings or ENCODINGS
        self.reduce: Reduce = options.reduce
        self.max_copies: int | None = None

        hop_channels = options.hop_channels
        added = hop_channels if hop == "concat" else 0
        made_of = f"in_channels {in_channels} + hop_channels {added}"
        self.calling = try_out(gnn, in_channels + added, made_of)
        self.gnn = gnn
        width = self.calling.out_channels
        self.project = (
            nn.Linear(width, out_channels) if width != out_channels else nn.Identity()
        )
        self.hop_table = HopTable(max_hops, hop_channels) if hop_channels else None
        self.hop_linear = (
            nn.Linear(hop_channels, in_channels, bias=False)
            if hop_channels and hop == "add"
            else None
        )
        pooled = [name for name in self.encodings if name != "centroid"]
        gated = self.encodings if options.gate_centroid else pooled
        transformed = pooled if len(self.encodings) > 1 else []
        self.gates = make_gates(gated, hop_channels, out_channels)
        self.transforms = make_transforms(transformed, out_channels, options.mlp_layers)
        self.fuse = make_fuse(options, len(self.encodings), out_channels)

    def forward(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Compute every node's new state.

        Args:
            x: Node states, [n, in_channels].
            subgraphs: A rooted subgraph for every node, or those that `SubgraphDrop`
                sampled.
            edge_attr: Edge states [e, c], or weights [e], that the base GNN reads.

        Returns:
            New node states, [n, out_channels].
        """
        self.check(x, subgraphs, edge_attr)
        with on_copies(subgraphs):
            if self.max_copies is None or not can_slice(self, subgraphs):
                encodings = self.encode(x, subgraphs, edge_attr, self.reduce)
            else:
                encodings = sliced_encodings(
                    lambda part: self.encode(x, part, edge_attr, "sum"),
                    subgraphs,
                    x.size(0),
                    self.max_copies,
                    self.reduce,
                )
        return self.combine(encodings, subgraphs, x.size(0))

    def check(
        self, x: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | None
    ) -> None:
        """Raise an error for inputs that do not fit the layer or each other."""
        check_states(x, self.in_channels)
        check_subgraphs(subgraphs, x.size(0), edge_attr)
        if self.hop_table is not None:
            check_hops(subgraphs, self.max_hops)

    @operation
    def encode(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_attr: Tensor | None,
        context_reduce: Reduce,
    ) -> dict[Encoding, Tensor]:
        """Run the base GNN on the subgraphs and encode the states of their copies.

        Args:
            x: Node states, [n, in_channels].
            subgraphs: All rooted subgraphs, or some of them.
            edge_attr: Edge states or weights.
            context_reduce: POOL of the context encoding.

        Returns:
            Centroid and subgraph encodings [s, c], and context encodings [n, c].
        """
        rows = self.hop_table.rows(subgraphs) if self.hop_table else None
        copies = self.lift(x, subgraphs, rows)
        edges = None if edge_attr is None else lift_edges(edge_attr, subgraphs)
        emb = self.project(
            self.calling(
                self.gnn, copies, subgraphs.edge_index, edges, subgraphs.subgraph
            )
        )
        encodings: dict[Encoding, Tensor] = {}
        for name in self.encodings:
            z = self.gate(name, emb, rows)
            if name == "context":
                encodings[name] = context_encoding(
                    z, subgraphs, x.size(0), context_reduce
                )
            elif name == "centroid":
                encodings[name] = centroid_encoding(z, subgraphs)
            else:
                encodings[name] = subgraph_encoding(z, subgraphs, self.reduce)
        return encodings

    def combine(
        self,
        encodings: dict[Encoding, Tensor],
        subgraphs: RootedSubgraphs,
        num_nodes: int,
    ) -> Tensor:
        """Put the encodings of subgraphs at their roots, and fuse all, [n, c]."""
        of_roots = dict(encodings)
        of_roots.pop("context", None)
        encodings = encodings | at_nodes(of_roots, subgraphs, num_nodes)
        with on_graph(subgraphs.real):
            return self.fuse(list(encodings.values()))

    def lift(
        self, x: Tensor, subgraphs: RootedSubgraphs, rows: Tensor | None
    ) -> Tensor:
        """Give every copy its node's state, augmented with its distance, [m, c]."""
        copies = lift(x, subgraphs)
        if self.hop_table is None or rows is None:
            return copies
        if self.hop_linear is not None:
            return copies + lookup(self.hop_linear(self.hop_table.weight), rows)
        return torch.cat([copies, lookup(self.hop_table.weight, rows)], dim=1)

    def gate(self, name: Encoding, emb: Tensor, rows: Tensor | None) -> Tensor:
        """Transform the copies' states for one encoding, and gate them, [m, c]."""
        if name in self.transforms:
            emb = self.transforms[name](emb)
        if name in self.gates and self.hop_table is not None and rows is not None:
            emb = emb * lookup(self.gates[name](self.hop_table.weight), rows)
        return emb

    def extra_repr(self) -> str:
        """Show the options in the order of the arguments."""
        return (
            f"in_channels={self.in_channels}, out_channels={self.out_channels}, "
            f"max_hops={self.max_hops}, hop={self.hop!r}, {self.options}"
        )
