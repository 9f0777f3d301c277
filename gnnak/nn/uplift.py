"""One GNN-AK(+) layer: the file to read beside the paper, section 4."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gnnak.fast.kernels.records import EdgeStates
from gnnak.fast.layers.layer import can_fuse, fused_encodings
from gnnak.nn.calling import try_out
from gnnak.nn.checks import check_hops, check_states, check_subgraphs
from gnnak.nn.departures import PAPER, Departures
from gnnak.nn.encodings import (
    at_nodes,
    centroid_encoding,
    context_encoding,
    subgraph_encoding,
)
from gnnak.nn.fuse import make_fuse
from gnnak.nn.gates import HopTable, make_gates
from gnnak.nn.mlp import make_transforms
from gnnak.nn.segment import gather, lookup
from gnnak.nn.sliced import can_slice, sliced_encodings
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import (
    ENCODINGS,
    Encoding,
    FuseMode,
    HopMode,
    Reduce,
    check_choice,
    check_count,
    check_encodings,
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
            D2C. If its output is not `out_channels` wide, a Linear follows it.
        in_channels: Width of the node states that come in.
        out_channels: Width of the node states that go out.
        hop_channels: Width of the encoding of D2C, h; 0 = no D2C.
        max_hops: Largest distance the layer can be given.
        encodings: Which encodings are fused.
        reduce: POOL of the subgraph and the context encoding.
        fuse: FUSE; "concat" ends in a Linear back to `out_channels`.
        hop: How D2C augments the states: "concat", as in the paper, or "add" (through
            a Linear), which leaves the base GNN's width alone.
        departures: What the published experiments do beyond the equations above.

    Attributes:
        max_copies: In evaluation, about how many copies are computed at a time: less
            memory, the same values. None = all at once.
        fused: Whether to use fused kernels where there are some; the same values.

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
        hop_channels: int = 16,
        max_hops: int = 10,
        encodings: Sequence[Encoding] = ENCODINGS,
        reduce: Reduce = "sum",
        fuse: FuseMode = "concat",
        hop: HopMode = "concat",
        departures: Departures = PAPER,
    ) -> None:
        super().__init__()
        self.in_channels = check_count("in_channels", in_channels, least=1)
        self.out_channels = check_count("out_channels", out_channels, least=1)
        self.hop_channels = check_count("hop_channels", hop_channels)
        self.max_hops = check_count("max_hops", max_hops)
        self.encodings = check_encodings(encodings)
        check_choice("reduce", reduce, ("sum", "mean"))
        check_choice("fuse", fuse, ("concat", "sum"))
        check_choice("hop", hop, ("concat", "add"))
        self.reduce: Reduce = reduce
        self.hop: HopMode = hop
        self.departures = departures
        self.max_copies: int | None = None
        self.fused = True

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
        gated = self.encodings if departures.gate_centroid else pooled
        transformed = pooled if len(self.encodings) > 1 else []
        self.gates = make_gates(gated, hop_channels, out_channels)
        self.transforms = make_transforms(
            transformed, out_channels, departures.mlp_layers
        )
        self.fuse = make_fuse(fuse, len(self.encodings), out_channels, departures)

    def forward(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_attr: Tensor | EdgeStates | None = None,
    ) -> Tensor:
        """Compute every node's new state.

        Args:
            x: Node states, [n, in_channels].
            subgraphs: A rooted subgraph for every node, or those `SubgraphDrop` keeps.
            edge_attr: Edge states [e, c], or weights [e]; what the base GNN reads.
                The networks of this package may hand in `EdgeStates`.

        Returns:
            New node states, [n, out_channels].
        """
        check_states(x, self.in_channels)
        check_subgraphs(subgraphs, x.size(0), edge_attr)
        if self.hop_table is not None:
            check_hops(subgraphs, self.max_hops)
        if self.max_copies is None or not can_slice(self, subgraphs):
            encodings = self.encodings_of(x, subgraphs, edge_attr, self.reduce)
        else:
            encodings = sliced_encodings(
                lambda part: self.encodings_of(x, part, edge_attr, "sum"),
                subgraphs,
                x.size(0),
                self.max_copies,
                self.reduce,
            )
        encodings |= at_nodes(
            {name: encodings[name] for name in encodings if name != "context"},
            subgraphs,
            x.size(0),
            self.fused,
        )
        return self.fuse(list(encodings.values()))

    def encodings_of(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_attr: Tensor | EdgeStates | None,
        over_context: Reduce,
    ) -> dict[Encoding, Tensor]:
        """Run the base GNN on the subgraphs, and encode what it says there.

        Args:
            x: Node states, [n, in_channels].
            subgraphs: All rooted subgraphs, or some of them.
            edge_attr: Edge states or weights.
            over_context: POOL of the context encoding.
        """
        states = None if edge_attr is None else EdgeStates.of(edge_attr)
        if self.fused and can_fuse(self, x, subgraphs, states):
            return fused_encodings(self, x, subgraphs, states, over_context)
        rows = self.hop_table.rows(subgraphs) if self.hop_table else None
        copies = self.lift(x, subgraphs, rows)
        edges = None if states is None else gather(states.rows(), subgraphs.edge)
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
                    z, subgraphs, x.size(0), over_context
                )
            elif name == "centroid":
                encodings[name] = centroid_encoding(z, subgraphs)
            else:
                encodings[name] = subgraph_encoding(z, subgraphs, self.reduce)
        return encodings

    def lift(
        self, x: Tensor, subgraphs: RootedSubgraphs, rows: Tensor | None
    ) -> Tensor:
        """Give every copy its node's state, augmented with its distance, [m, c]."""
        copies = gather(x, subgraphs.node)
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
            f"hop_channels={self.hop_channels}, max_hops={self.max_hops}, "
            f"encodings={self.encodings}, reduce={self.reduce!r}, hop={self.hop!r}, "
            f"{self.departures}"
        )
