"""The GNN-AK+ layer, with the equations of section 4 of the paper."""

from contextlib import nullcontext
from typing import Unpack

import torch
from torch import Tensor, nn

from gnnak.backend import PLAIN, operation, use_backend
from gnnak.nn.calling import Calling, Inputs, lift_inputs, try_out
from gnnak.nn.calling.masks import explained_convs, masks_on_copies
from gnnak.nn.checks import (
    EXPLAINED,
    check_hops,
    check_states,
    check_subgraphs,
    explanation,
    first_weight,
)
from gnnak.nn.copies import lift
from gnnak.nn.encodings import (
    HopTable,
    at_nodes,
    centroid_encoding,
    context_encoding,
    make_fuse,
    make_gates,
    subgraph_encoding,
)
from gnnak.nn.mlp import make_transforms
from gnnak.nn.options import PAPER, LayerChanges, LayerOptions
from gnnak.nn.padding import on_copies, on_graph
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
    r"""One GNN-AK+ layer: run a base GNN on the rooted subgraph of every node.

    $\text{Emb}(i \mid \text{Sub}[j])$ is the state that the base GNN computes for node
    $i$ in the subgraph rooted at node $j$, and $\mathbf{d}_{i|j}$ is a learned encoding
    of the distance from $i$ to $j$. The paper calls the root $j$ the centroid, and this
    distance D2C (distance to the centroid). The new state of node $v$ is

    $$h_v' = \text{FUSE}\big(h_v^{\text{Centroid}},\,
        h_v^{\text{Subgraph}},\, h_v^{\text{Context}}\big)$$

    $$h_v^{\text{Centroid}} = \text{Emb}(v \mid \text{Sub}[v])$$

    $$h_v^{\text{Subgraph}} = \text{POOL}_{i \in \text{Sub}[v]}\,
        \text{Sigmoid}(\mathbf{d}_{i|v}) \odot \text{Emb}(i \mid \text{Sub}[v])$$

    $$h_v^{\text{Context}} = \text{POOL}_{j:\, v \in \text{Sub}[j]}\,
        \text{Sigmoid}(\mathbf{d}_{v|j}) \odot \text{Emb}(v \mid \text{Sub}[j])$$

    The base GNN gets $[h_i \,\Vert\, \mathbf{d}_{i|j}]$ as the state of node $i$ in
    $\text{Sub}[j]$. A node as it occurs in one rooted subgraph is called a node copy.

    The weights of the layer take the dtype and the device of the base GNN's weights.

    For GNN-AK, which uses no distances, no gates (the sigmoids) and no context, set
    `hop_channels=0, encodings=("centroid", "subgraph")`.

    Args:
        gnn: The base GNN: any module that maps `(x, edge_index[, edge_attr or
            edge_weight][, batch])` to node states. Its input width must be
            `in_channels + hop_channels`; with `hop="add"` or `hop_channels=0` it must
            be `in_channels`. If its output width is not `out_channels`, a Linear
            follows. It may take further arguments, such as `edge_type`, `pos` or
            `x_0`; `forward` then gets them as `Inputs`.
        in_channels: Width of the incoming node states.
        out_channels: Width of the new node states.
        max_hops: Largest distance from a node to the root that the subgraphs may have.
        hop: How $\mathbf{d}_{i|j}$ enters the input of the base GNN: "concat", as in
            the paper, or "add", $h_i + W \mathbf{d}_{i|j}$, for a base GNN of input
            width `in_channels`.
        options: All other options; see `LayerOptions`.
        calling: How the base GNN is called; None = as found by a trial run.
        changes: Options that differ from `options`, such as `hop_channels=0`.

    Attributes:
        max_copies: In evaluation, run the base GNN on about this many node copies at a
            time, to save memory; None = on all at once. The output is the same.

    Difference from the paper: a Linear maps $\mathbf{d}$ before the sigmoid (see
    `HopGate`), and FUSE is a concatenation followed by a Linear. In the paper,
    FUSE also takes $\mathbf{d}_{i|j}$, to extend the input of the next layer; here,
    every layer extends its own input.

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
        calling: Calling | None = None,
        **changes: Unpack[LayerChanges],
    ) -> None:
        super().__init__()
        options = LayerOptions.resolve(options, changes)
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
        origin = f"in_channels {in_channels} + hop_channels {added}"
        self.calling = calling or try_out(gnn, in_channels + added, origin)
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
        self.dropout = nn.Dropout(options.dropout)
        self.fuse = make_fuse(options, len(self.encodings), out_channels)
        weight = first_weight(gnn)
        if weight is not None:
            for part in self.children():
                if part is not gnn:
                    part.to(weight.device, weight.dtype)

    def forward(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_attr: Tensor | Inputs | None = None,
    ) -> Tensor:
        """Compute the new state of every node.

        Args:
            x: Node states, [n, in_channels].
            subgraphs: One rooted subgraph per node, or the sample of these subgraphs
                that `SubgraphDrop` returns.
            edge_attr: Edge states, [e, c], or weights, [e], for the base GNN; None if
                the base GNN reads no edge attributes. `Inputs` if it takes further
                arguments.

        Returns:
            New node states, [n, out_channels].
        """
        self.check(x, subgraphs, edge_attr)
        try:
            if not explained_convs(self.gnn):
                return self._new_states(x, subgraphs, edge_attr)
            # PyG's explainers mask messages, which fused kernels do not support.
            with use_backend(PLAIN):
                return self._new_states(x, subgraphs, edge_attr)
        except EXPLAINED as error:
            width = self.in_channels
            if self.hop == "concat":
                width += self.options.hop_channels
            found = explanation(error, self.calling, self.gnn, x, edge_attr, width)
            if found is None:
                raise
            raise found from error

    def _new_states(
        self, x: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | Inputs | None
    ) -> Tensor:
        """Compute the new state of every node, in slices if `max_copies` is set."""
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
        return self.fuse_encodings(encodings, subgraphs, x.size(0))

    def check(
        self, x: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | Inputs | None
    ) -> None:
        """Raise an error if the arguments of `forward` do not fit the layer.

        Raises:
            WidthError: If `x` is not a floating-point tensor [n, in_channels].
            SubgraphError: If the subgraphs belong to a graph with another number of
                nodes, are on another device, or a node is farther than `max_hops` from
                the root.
            EdgeAttrError: If `edge_attr` does not have one row per edge, is on another
                device, or is not read by the base GNN.
        """
        check_states(x, self.in_channels)
        if isinstance(edge_attr, Inputs):
            check_subgraphs(subgraphs, x, None)
            edge_attr.check(x, subgraphs.num_edges)
        else:
            check_subgraphs(subgraphs, x, edge_attr)
            if edge_attr is not None:
                self.calling.edge_argument(edge_attr)
        if self.hop_table is not None:
            check_hops(subgraphs, self.max_hops)

    @operation
    def encode(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_attr: Tensor | Inputs | None,
        context_reduce: Reduce,
    ) -> dict[Encoding, Tensor]:
        """Compute the centroid, subgraph and context encodings that the layer uses.

        Args:
            x: Node states, [n, in_channels].
            subgraphs: All rooted subgraphs, or some of them.
            edge_attr: Edge states, [e, c], weights, [e], or `Inputs`; or None.
            context_reduce: How the context encoding is pooled. A caller that encodes
                the subgraphs in several parts passes "sum" and adds the results.

        Returns:
            The encodings by name: "centroid" and "subgraph" with one row per subgraph,
            [s, c], and "context" with one row per node, [n, c].
        """
        emb = self.embed(x, subgraphs, edge_attr)
        encodings: dict[Encoding, Tensor] = {}
        for name in self.encodings:
            gated = self.gate(name, emb, subgraphs)
            if name == "centroid":
                encodings[name] = centroid_encoding(gated, subgraphs)
            elif name == "subgraph":
                encodings[name] = subgraph_encoding(gated, subgraphs, self.reduce)
            else:
                encodings[name] = context_encoding(
                    gated, subgraphs, x.size(0), context_reduce
                )
        return encodings

    @operation
    def embed(
        self, x: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | Inputs | None
    ) -> Tensor:
        """Run the base GNN once, on the disjoint union of all rooted subgraphs.

        Args:
            x: Node states, [n, in_channels].
            subgraphs: The rooted subgraphs.
            edge_attr: Edge states, [e, c], weights, [e], or `Inputs`; or None.

        Returns:
            One state for each of the m pairs of a subgraph and a node in it, [m, c].
        """
        h = self.augment(x, subgraphs)
        e = lift_inputs(edge_attr, subgraphs)
        masked = explained_convs(self.gnn)
        with masks_on_copies(masked, subgraphs) if masked else nullcontext():
            emb = self.calling(self.gnn, h, subgraphs.edge_index, e, subgraphs.subgraph)
        return self.project(emb)

    def augment(self, x: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
        """Return the input of the base GNN: node states combined with distances.

        The result has one row for each pair of a subgraph and a node in it. With
        `hop="concat"`, a row is the state of the node, concatenated with a learned
        embedding of its distance to the subgraph's root. With `hop="add"`, the
        embedding is mapped by a Linear and added to the state instead. With
        `hop_channels=0`, a row is the state alone.

        Args:
            x: Node states, [n, in_channels].
            subgraphs: The rooted subgraphs.
        """
        h = lift(x, subgraphs)
        if self.hop_table is None:
            return h
        d = self.hop_table.weight
        if self.hop_linear is not None:
            return h + self.hop_table.per_copy(self.hop_linear(d), subgraphs)
        return torch.cat([h, self.hop_table.per_copy(d, subgraphs)], dim=1)

    def gate(self, name: Encoding, emb: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
        """Multiply node states by a gate: learned factors in 0..1 for each distance.

        The distance is that from the node to the root of its subgraph. If the option
        `mlp_layers` is not 0, dropout and an MLP transform the states first.

        Args:
            name: The encoding that the result is used for. By default the centroid
                encoding has no gate; with `hop_channels=0`, no encoding has a gate.
            emb: Output of the base GNN, [m, c]: one row for each of the m pairs of a
                subgraph and a node in it.
            subgraphs: The rooted subgraphs, which store the distance of each node to
                its root.

        Returns:
            The multiplied states, [m, c].
        """
        if name in self.transforms:
            emb = self.transforms[name](self.dropout(emb))
        if name not in self.gates:
            return emb
        assert self.hop_table is not None
        sigmoid_d = self.gates[name](self.hop_table.weight)
        return self.hop_table.per_copy(sigmoid_d, subgraphs) * emb

    def fuse_encodings(
        self,
        encodings: dict[Encoding, Tensor],
        subgraphs: RootedSubgraphs,
        num_nodes: int,
    ) -> Tensor:
        """Combine the encodings of each node into its new state.

        Args:
            encodings: The result of `encode` or `sliced_encodings`, by name.
            subgraphs: The rooted subgraphs that were encoded.
            num_nodes: Number of nodes, n.

        Returns:
            New node states, [n, out_channels].
        """
        per_subgraph = dict(encodings)
        per_subgraph.pop("context", None)
        per_node = encodings | at_nodes(per_subgraph, subgraphs, num_nodes)
        with on_graph(subgraphs.real):
            return self.fuse(list(per_node.values()))

    def extra_repr(self) -> str:
        """Return the widths and options of the layer, as text for `repr`."""
        return (
            f"in_channels={self.in_channels}, out_channels={self.out_channels}, "
            f"max_hops={self.max_hops}, hop={self.hop!r}, {self.options}"
        )
