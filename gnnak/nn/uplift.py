"""The GNN-AK+ layer, with the equations of section 4 of the paper."""

from contextlib import nullcontext
from typing import Unpack

import torch
from torch import Tensor, nn

from gnnak.backend import PLAIN, operation, use_backend
from gnnak.errors import EdgeAttrError, SubgraphError, WidthError, kind_of
from gnnak.nn.calling import Calling, Inputs, lift_inputs, try_out
from gnnak.nn.calling.call import explained_convs, first_weight, masks_on_copies
from gnnak.nn.copies import at_centroid, lift, pool_subgraph
from gnnak.nn.encodings import (
    HopGate,
    HopTable,
    PairLinears,
    at_nodes,
    context_encoding,
    make_fuse,
)
from gnnak.nn.mlp import dense_block
from gnnak.nn.norm import on_copies, on_graph
from gnnak.nn.options import PAPER, LayerChanges, LayerOptions
from gnnak.nn.slices import can_slice, sliced_encodings
from gnnak.subgraphs.encodings import StructuralEncoding, structural_encodings
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.streamed import StreamedSubgraphs
from gnnak.typing import ENCODINGS, Encoding, HopMode, Reduce, check_choice, check_count


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

    The option `pairs` generalises the distance, $\mathbf{d}_{i|j} = T[d(i, j)]$ with a
    learned table $T$, to a sum of the terms that `pairs` names:

    $$\mathbf{d}_{i|j} = T[d(i, j)] + W_1 P_{ji} + W_2 R_{ji} + W_3 C_{ji}$$

    for "distance", "rrwp" (see `rrwp`), "resistance" (see `resistance`) and
    "distance-counts" (see `distance_counts`). All but the distance depend on the whole
    graph; `WithEncodings` computes them when the subgraphs are extracted.

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
        calling: Which arguments the base GNN takes. If None, a trial run finds out.
        max_copies: To save memory, run the base GNN on about this many node copies at a
            time. In training, the backward pass recomputes their states. Outputs and
            gradients are the same. If None, the base GNN runs on all node copies at
            once.
        changes: Options that differ from `options`, such as `hop_channels=0`.

    Difference from the paper: a Linear maps $\mathbf{d}$ before the sigmoid (see
    `HopGate`), and FUSE is a concatenation followed by a Linear. In the paper, FUSE
    also takes $\mathbf{d}_{i|j}$, to extend the input of the next layer. Here, every
    layer extends its own input.

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
        max_copies: int | None = None,
        **changes: Unpack[LayerChanges],
    ) -> None:
        super().__init__()
        options = LayerOptions.resolve(options, changes, GNNAK)
        self.in_channels = check_count("in_channels", in_channels, least=1)
        self.out_channels = check_count("out_channels", out_channels, least=1)
        self.max_hops = check_count("max_hops", max_hops)
        check_choice("hop", hop, ("concat", "add"))
        self.hop: HopMode = hop
        self.options = options
        self.encodings = options.encodings or ENCODINGS
        self.reduce: Reduce = options.reduce
        if max_copies is not None:
            check_count("max_copies", max_copies, least=1)
        self.max_copies = max_copies

        hop_channels = options.hop_channels
        added = hop_channels if hop == "concat" else 0
        origin = f"in_channels {in_channels} + hop_channels {added}"
        self.calling = calling or try_out(gnn, in_channels + added, origin)
        self.gnn = gnn
        width = self.calling.out_channels
        self.project = (
            nn.Linear(width, out_channels) if width != out_channels else nn.Identity()
        )
        has_table = hop_channels and "distance" in options.pairs
        self.hop_table = HopTable(max_hops, hop_channels) if has_table else None
        self.hop_linear = (
            nn.Linear(hop_channels, in_channels, bias=False)
            if hop_channels and hop == "add"
            else None
        )
        pooled = [name for name in self.encodings if name != "centroid"]
        gated = self.encodings if options.gate_centroid else pooled
        transformed = pooled if len(self.encodings) > 1 else []
        width, depth = out_channels, options.mlp_layers
        self.gates = nn.ModuleDict(
            {name: HopGate(hop_channels, width) for name in gated if hop_channels}
        )
        self.transforms = nn.ModuleDict(
            {
                name: nn.Sequential(*(dense_block(width, width) for _ in range(depth)))
                for name in transformed
                if depth
            }
        )
        structural = structural_encodings(options.pairs)
        self.pair_linears = (
            PairLinears(structural, hop_channels) if structural else None
        )
        self.dropout = nn.Dropout(options.dropout)
        self.fuse = make_fuse(options, len(self.encodings), out_channels)
        weight = first_weight(gnn)
        if weight is not None:
            for part in self.children():
                if part is not gnn:
                    part.to(weight.device, weight.dtype)

    @property
    def synchronises(self) -> bool:
        """Whether a forward pass synchronises, to cut the subgraphs into slices."""
        return self.max_copies is not None

    @property
    def pair_encodings(self) -> tuple[StructuralEncoding, ...]:
        """The structural encodings that the layer reads from the subgraphs."""
        return () if self.pair_linears is None else self.pair_linears.encodings

    def encode_pairs(
        self,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        batch: Tensor | None = None,
    ) -> None:
        """Compute `pair_encodings`, unless `subgraphs` have them, and cache them there.

        `edge_index`, [2, e], and `batch`, [n] or None, are those of the whole graphs.
        Streamed subgraphs have them from their extractor.
        """
        if not isinstance(subgraphs, StreamedSubgraphs):
            for encoding in self.pair_encodings:
                encoding(subgraphs, edge_index, batch)

    def forward(
        self,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_attr: Tensor | Inputs | None = None,
    ) -> Tensor:
        """Compute the new state of every node.

        Args:
            x: Node states, [n, in_channels].
            subgraphs: One rooted subgraph per node; the sample of these subgraphs that
                `SubgraphDrop` returns; or the subgraphs of some roots (see `extract`).
            edge_attr: Edge states, [e, c], or weights, [e], for the base GNN; None if
                the base GNN reads no edge attributes; `Inputs` if the base GNN takes
                further arguments.

        Returns:
            New node states, [n, out_channels]. If there are subgraphs of s < n roots
            only, new states of these roots, [s, out_channels], in the order of
            `subgraphs.root`. The context encoding of a root then pools only its copies
            in these s subgraphs.
        """
        self.check(x, subgraphs, edge_attr)
        try:
            encodings = self._encodings(x, subgraphs, edge_attr)
        except (RuntimeError, TypeError) as error:
            self.calling.explain(error, edge_attr)
            raise
        return self.fuse_encodings(encodings, subgraphs, x.size(0))

    def _encodings(
        self, x: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | Inputs | None
    ) -> dict[Encoding, Tensor]:
        # PyG's explainers mask messages, which fused kernels do not support.
        plain = bool(explained_convs(self.gnn))
        with use_backend(PLAIN) if plain else nullcontext(), on_copies(subgraphs):
            streamed = isinstance(subgraphs, StreamedSubgraphs)
            in_slices = streamed or self.max_copies is not None
            if not in_slices or not can_slice(self, subgraphs):
                return self.encode(x, subgraphs, edge_attr, self.reduce)
            return sliced_encodings(
                lambda part: self.encode(x, part, edge_attr, "sum"),
                self,
                subgraphs,
                x.size(0),
                self.max_copies or x.size(0),
                self.reduce,
            )

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
            edge_attr: As in `forward`.
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
                encodings[name] = at_centroid(gated, subgraphs)
            elif name == "subgraph":
                encodings[name] = pool_subgraph(gated, subgraphs, self.reduce)
            else:
                encodings[name] = context_encoding(
                    gated, subgraphs, x.size(0), context_reduce
                )
        return encodings

    @operation
    def embed(
        self, x: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | Inputs | None
    ) -> Tensor:
        r"""Compute $\text{Emb}(i \mid \text{Sub}[j])$ for every node copy, [m, c].

        The base GNN runs once, on the disjoint union of all rooted subgraphs.
        """
        h = self.augment(x, subgraphs)
        e = lift_inputs(edge_attr, subgraphs)
        masked = explained_convs(self.gnn)
        with masks_on_copies(masked, subgraphs) if masked else nullcontext():
            emb = self.calling(self.gnn, h, subgraphs.edge_index, e, subgraphs.subgraph)
        return self.project(emb)

    def augment(self, x: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
        r"""Return the input $[h_i \,\Vert\, \mathbf{d}_{i|j}]$ of the base GNN, [m, c].

        With `hop="add"`, this is $h_i + W \mathbf{d}_{i|j}$; with `hop_channels=0`, it
        is $h_i$.
        """
        h = lift(x, subgraphs)
        if not self.options.hop_channels:
            return h
        if self.hop_linear is not None:
            return h + self.on_pairs(self.hop_linear, subgraphs)
        return torch.cat([h, self.on_pairs(nn.Identity(), subgraphs)], dim=1)

    def on_pairs(self, function: nn.Module, subgraphs: RootedSubgraphs) -> Tensor:
        r"""Return `function` of $\mathbf{d}_{i|j}$ for every node copy, [m, c].

        If $\mathbf{d}_{i|j}$ is a row of the hop table, `function` is applied to the
        table, which has few rows.
        """
        if self.pair_linears is None:
            assert self.hop_table is not None
            return self.hop_table.per_copy(function(self.hop_table.weight), subgraphs)
        d = self.pair_linears(subgraphs)
        if self.hop_table is not None:
            d = self.hop_table.per_copy(self.hop_table.weight, subgraphs) + d
        return function(d)

    def gate(self, name: Encoding, emb: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
        r"""Return $\text{Sigmoid}(\mathbf{d}_{i|j}) \odot \text{Emb}(i|\text{Sub}[j])$.

        Each encoding has its own gate. By default, the centroid encoding has no gate;
        with `hop_channels=0`, no encoding has a gate. If the option `mlp_layers` is not
        0, dropout and an MLP transform the states first.
        """
        if name in self.transforms:
            emb = self.transforms[name](self.dropout(emb))
        if name not in self.gates:
            return emb
        sigmoid_d = self.on_pairs(self.gates[name], subgraphs)
        return sigmoid_d * emb

    def fuse_encodings(
        self,
        encodings: dict[Encoding, Tensor],
        subgraphs: RootedSubgraphs,
        num_nodes: int,
    ) -> Tensor:
        """Return FUSE of the encodings of each node, [n, out_channels].

        If there are subgraphs of s < n roots only, the result is for these roots,
        [s, out_channels].
        """
        found = dict(encodings)
        if not subgraphs.has_some_roots(num_nodes):
            found.pop("context", None)
            found = encodings | at_nodes(found, subgraphs, num_nodes)
        elif "context" in found:
            found["context"] = found["context"].index_select(0, subgraphs.root)
        with on_graph(subgraphs.real):
            return self.fuse(list(found.values()))

    def check(
        self, x: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | Inputs | None
    ) -> None:
        """Raise an error if an argument of `forward` is wrong for this layer.

        Raises:
            WidthError: If `x` has a wrong shape, or another dtype or device than the
                weights.
            SubgraphError: If the subgraphs belong to other nodes than `x`, or contain
                nodes farther than `max_hops` from the root.
            EdgeAttrError: If `edge_attr` has a wrong shape, dtype or device, or if the
                base GNN reads no edge attributes.
        """
        check_states(x, self.in_channels)
        e = None if isinstance(edge_attr, Inputs) else edge_attr
        check_subgraphs(subgraphs, x, e)
        if isinstance(edge_attr, Inputs):
            edge_attr.check(x, subgraphs.num_edges)
        elif edge_attr is not None:
            self.calling.check_edge_attr(edge_attr)
        if not torch.compiler.is_compiling():
            check_weights(self.gnn, x, e)
        if self.hop_table is not None:
            check_hops(subgraphs, self.max_hops)

    def extra_repr(self) -> str:
        """Return the widths and options of the layer, as text for `repr`."""
        return (
            f"in_channels={self.in_channels}, out_channels={self.out_channels}, "
            f"max_hops={self.max_hops}, hop={self.hop!r}, {self.options}"
        )


def check_states(x: Tensor, channels: int) -> None:
    """Raise `WidthError` unless `x` is a floating-point tensor [n, channels]."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise WidthError(f"x is {kind}; give a tensor of real numbers [n, {channels}].")
    if x.dim() != 2 or x.size(1) != channels:
        raise WidthError(f"x has shape {list(x.shape)}; give [n, {channels}].")


def check_weights(gnn: nn.Module, x: Tensor, edge_attr: Tensor | None) -> None:
    """Raise an error unless `x` and `edge_attr` have the weights' device and dtype."""
    weight, name = first_weight(gnn), type(gnn).__name__
    if weight is None:
        return
    if x.device != weight.device:
        raise WidthError(
            f"x is on {x.device}, but the weights of {name} are on {weight.device}; "
            f"move the model with model.to('{x.device}'), or move x and edge_index."
        )
    if torch.is_autocast_enabled(x.device.type):
        return
    if torch.promote_types(x.dtype, weight.dtype) != weight.dtype:
        raise WidthError(
            f"x is {x.dtype}, but the weights of {name} are {weight.dtype}; convert x "
            f"with x.to({weight.dtype}), or the model with model.to({x.dtype})."
        )
    if edge_attr is None:
        return
    if torch.promote_types(edge_attr.dtype, weight.dtype) != weight.dtype:
        raise EdgeAttrError(
            f"edge_attr is {edge_attr.dtype}, but the weights of {name} are "
            f"{weight.dtype}; convert edge_attr with edge_attr.to({weight.dtype})."
        )


def check_subgraphs(
    subgraphs: RootedSubgraphs, x: Tensor, edge_attr: Tensor | None
) -> None:
    """Raise an error unless `subgraphs` belong to the graph of `x` and `edge_attr`."""
    num_nodes = x.size(0)
    if not isinstance(subgraphs, RootedSubgraphs):
        raise SubgraphError(
            f"subgraphs is {kind_of(subgraphs)}; give the result of "
            "gnnak.EgoNets(num_hops)(edge_index, num_nodes)."
        )
    if torch.compiler.is_compiling():
        # Reading the number of nodes would compile the code anew for each number.
        size = max(subgraphs.num_subgraphs, num_nodes)
    else:
        size = subgraphs.num_nodes or subgraphs.num_subgraphs
    if size != num_nodes:
        raise SubgraphError(
            f"there are {subgraphs.num_subgraphs} rooted subgraphs for {num_nodes} "
            f"nodes, but they are of a graph with {size} nodes; give the states of all "
            "nodes, and subgraphs of this batch."
        )
    if subgraphs.device != x.device:
        raise SubgraphError(
            f"the subgraphs are on {subgraphs.device}, but x is on {x.device}; move "
            f"them with subgraphs.to('{x.device}')."
        )
    if edge_attr is None:
        return
    subgraphs.check_edge_attr(edge_attr)
    if edge_attr.layout != torch.strided:
        raise EdgeAttrError(
            f"edge_attr has the layout {edge_attr.layout}; convert it with .to_dense()."
        )
    if edge_attr.device != x.device:
        raise EdgeAttrError(
            f"edge_attr is on {edge_attr.device}, but x is on {x.device}; move it with "
            f"edge_attr.to('{x.device}')."
        )


def check_hops(subgraphs: RootedSubgraphs, max_hops: int) -> None:
    """Raise `SubgraphError` if a node is farther than `max_hops` from its root."""
    if torch.compiler.is_compiling():
        within = (subgraphs.hop <= max_hops).all()
        torch._assert_async(within, f"a hop is beyond max_hops={max_hops}")
        return
    known = subgraphs.hop_range
    if (known is None or known[1] > max_hops) and subgraphs.max_hop > max_hops:
        raise SubgraphError(
            f"a node is {subgraphs.max_hop} hops from its root, but this layer has "
            f"max_hops={max_hops}; build it with max_hops={subgraphs.max_hop}."
        )
