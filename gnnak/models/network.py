"""The paper's network: node encoder, layers with a residual sum, readout and head."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from gnnak.backend import operation
from gnnak.errors import GraphError, OptionError, SubgraphError, WidthError
from gnnak.graphs.adjacency import check_edge_index
from gnnak.graphs.real import real_counts_of
from gnnak.nn.calling import Calling, try_out
from gnnak.nn.copies import REDUCES, segment_reduce
from gnnak.nn.family import SubgraphGNN
from gnnak.nn.norm import NormReluDropout, on_graph
from gnnak.nn.recompute import recomputed
from gnnak.nn.uplift import GNNAK
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.sampling.shared import SharedSubgraphs
from gnnak.subgraphs.extractors import Extractor
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Reduce, Residual, check_choice, check_count


class GraphLike(Protocol):
    """A graph that `Network` accepts: PyG's `Data` or `Batch`, or `GraphBatch`."""

    x: Tensor | None
    edge_index: Tensor | None
    edge_attr: Tensor | None
    batch: Tensor | None


class Network(nn.Module):
    """A network for graph or node tasks: node encoder, layers, readout and head.

    Args:
        encoder: Maps raw node features to node states: `encoder(x, num_nodes)`.
        layers: The layers, which run in sequence on the node states: `OuterLayer`s, or
            one `SubgraphGNN` with layers of its own.
        head: Maps graph states to the output; in node tasks, it maps node states.
        reduce: How the readout pools node states to graph states; None for node tasks,
            which have no readout.
        extractor: Extracts the rooted subgraphs if `forward` is called without them;
            None if no layer needs subgraphs.
        drop: Samples the rooted subgraphs that a forward pass in training uses. If
            None, training uses all subgraphs, as evaluation always does.
    """

    def __init__(
        self,
        encoder: nn.Module,
        layers: Sequence[nn.Module],
        head: nn.Module,
        reduce: Reduce | None = "sum",
        extractor: Extractor | None = None,
        drop: SubgraphDrop | None = None,
    ) -> None:
        super().__init__()
        if reduce is not None:
            check_choice("reduce", reduce, REDUCES)
        self.encoder = encoder
        self.layers = nn.ModuleList(layers)
        self.head = head
        self.reduce: Reduce | None = reduce
        self.drop = drop
        self.shared = None if extractor is None else SharedSubgraphs(extractor, drop)
        self.recompute = False

    @property
    def extractor(self) -> Extractor | None:
        """The extractor of rooted subgraphs, or None if no layer needs subgraphs.

        Give it to the loader, as in `GraphLoader(graphs, subgraphs=network.extractor)`.
        """
        return None if self.shared is None else self.shared.extractor

    def save_memory(
        self, recompute: bool = True, max_copies: int | None = None
    ) -> None:
        """Reduce memory use at the cost of time; outputs and gradients do not change.

        Args:
            recompute: Whether training saves only the node states between layers for
                the backward pass, which recomputes the activations inside each layer.
            max_copies: Each GNN-AK layer computes about this many node copies at a
                time, and recomputes them in the backward pass. Subgraphs that do not
                fit into memory are extracted in parts. If None, all node copies are
                computed at once. Other subgraph GNNs ignore this argument.
        """
        if max_copies is not None:
            check_count("max_copies", max_copies, least=1)
        self.recompute = recompute
        if self.shared is not None:
            has_layers = any(isinstance(each, GNNAK) for each in self.modules())
            self.shared.max_copies = max_copies if has_layers else None
        for module in self.modules():
            if isinstance(module, GNNAK):
                module.max_copies = max_copies
            elif isinstance(module, SubgraphGNN):
                module.recompute = recompute

    def forward(
        self,
        x: Tensor | GraphLike | None,
        edge_index: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        subgraphs: RootedSubgraphs | None = None,
        num_graphs: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Run the network on a batch of graphs, and return its outputs.

        Args:
            x: Raw node features, [n, c] or [n]. It may also be a PyG `Data` or `Batch`
                or a `GraphBatch`, which then replaces edge_index, edge_attr and batch.
            edge_index: Directed edges, [2, e].
            edge_attr: Raw edge features, [e, c] or [e]; None if the data has none.
            batch: Index of the graph that each node is in, [n]. If None, all nodes are
                in one graph.
            subgraphs: Rooted subgraphs of the batch. If None, they are extracted.
            num_graphs: Number of graphs, g. If None, it is `x.num_graphs`. If `x` has
                no such attribute, it is `batch.max() + 1`, which is too small if the
                last graphs have no nodes.
            generator: Source of randomness in training, for random walks and
                SubgraphDrop. If None, the global random state of PyTorch is used.

        Returns:
            The output, with one row per graph, [g, out]. In node tasks, it has one row
            per node, [n, out].
        """
        real = None
        if x is not None and not isinstance(x, Tensor):
            if num_graphs is None:
                num_graphs = getattr(x, "num_graphs", None)
            real = real_counts_of(x)
            x, edge_index, edge_attr, batch = (
                getattr(x, name, None)
                for name in ("x", "edge_index", "edge_attr", "batch")
            )
        if x is None or edge_index is None:
            raise GraphError(
                "the network needs node features x and edge_index; for graphs without "
                "features pass x = torch.zeros(num_nodes, 1, dtype=torch.long)."
            )
        num_nodes = x.size(0)
        if batch is None:
            batch = torch.zeros(num_nodes, dtype=torch.long, device=edge_index.device)
        _check_graph(edge_index, batch, num_nodes, num_graphs)
        if subgraphs is not None:
            subgraphs = self._sampled(subgraphs, edge_index, num_nodes, generator)
        elif self.shared is not None:
            self.shared.begin_pass()
            subgraphs = self.shared.get(
                edge_index, num_nodes, self.training, generator, batch
            )
            self.shared.end_pass()
        if real is not None and subgraphs is not None and subgraphs.real is None:
            raise SubgraphError(
                "the batch is padded, but its rooted subgraphs are not; hand in the "
                "subgraphs that were padded with the batch."
            )
        with on_graph(real):
            states = self.encoder(x, num_nodes)
            states = self.run_layers(states, edge_index, edge_attr, batch, subgraphs)
            if self.reduce is not None:
                if num_graphs is None:
                    num_graphs = int(batch.max()) + 1 if batch.numel() else 1
                states = segment_reduce(states, batch, num_graphs, self.reduce)
            return self.head(states)

    @operation
    def run_layers(
        self,
        states: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor,
        subgraphs: RootedSubgraphs | None,
    ) -> Tensor:
        """Run all layers in sequence, without the encoder, the readout and the head."""
        for layer in self.layers:
            whole = isinstance(layer, SubgraphGNN)  # recomputes its own layers
            recompute = self.recompute and self.training and not whole
            run = partial(recomputed, layer) if recompute else layer
            states = run(states, edge_index, edge_attr, batch, subgraphs)
        return states

    def _sampled(
        self,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None,
    ) -> RootedSubgraphs:
        """Return all subgraphs; in training with SubgraphDrop, return a sample."""
        if isinstance(subgraphs, SampledSubgraphs):
            return subgraphs
        if subgraphs.num_subgraphs != num_nodes:
            told = f"got {subgraphs.num_subgraphs} subgraphs for {num_nodes} nodes"
            raise SubgraphError(f"{told}; extract one for every node of this batch.")
        if self.drop is None or not self.training:
            return subgraphs
        return self.drop(subgraphs, edge_index, generator)


def _check_graph(
    edge_index: Tensor, batch: Tensor, num_nodes: int, num_graphs: int | None
) -> None:
    if batch.shape != (num_nodes,) or batch.dtype != torch.long:
        raise GraphError(
            f"batch is {batch.dtype} {list(batch.shape)}; give the graph of each node "
            f"as an int64 tensor [{num_nodes}]."
        )
    if edge_index.is_cuda or torch.compiler.is_compiling():
        return
    check_edge_index(edge_index, num_nodes)
    if num_graphs is None or not batch.numel():
        return
    low, high = (int(graph) for graph in batch.aminmax())
    if low < 0 or high >= num_graphs:
        raise GraphError(
            f"batch names graph {low if low < 0 else high}, but there are {num_graphs} "
            f"graphs (0 to {num_graphs - 1})."
        )


class OuterLayer(nn.Module):
    r"""One layer of `Network`: GNNs, BatchNorm, ReLU, dropout and a residual sum.

    $$x \leftarrow x + \text{Dropout}(\text{ReLU}(\text{BN}(\sum_i K_i(x))))$$

    With `residual="linear"`, a Linear $W$ of the input replaces the residual sum:

    $$x \leftarrow \text{Dropout}(\text{ReLU}(\text{BN}(W x + \sum_i K_i(x))))$$

    Args:
        kernels: The GNNs $K_i$, whose outputs are summed. Usually there is only one. If
            a conv on the whole graph is added to a GNN-AK layer, this conv is the
            second GNN. It has no edge encoder, but reads the first `channels` channels
            of the edge states that the GNN-AK layer reads.
        channels: Width of the node states.
        dropout: Dropout probability after the ReLU.
        residual: How the input is added to the output: "sum" or "linear".
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        channels: int,
        dropout: float = 0.0,
        residual: Residual = "sum",
    ) -> None:
        super().__init__()
        if not kernels:
            raise OptionError("an OuterLayer has no kernels; give at least one.")
        if any(kernel.edge_encoder is not None for kernel in kernels[1:]):
            told = "only the first kernel of an OuterLayer may have an edge encoder"
            raise OptionError(f"{told}; the others read its edge states.")
        self.kernels = nn.ModuleList(kernels)
        self.after = NormReluDropout(channels, dropout)
        self.linear = nn.Linear(channels, channels) if residual == "linear" else None

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor,
        subgraphs: RootedSubgraphs | None,
    ) -> Tensor:
        """Compute new node states, [n, c]; arguments as in `Kernel.forward`."""
        first, *others = cast("list[Kernel]", list(self.kernels))
        states = narrow = None
        if others and first.edge_encoder is not None:
            states = first.edge_encoder(edge_attr, edge_index.size(1))
            narrow = states[:, : x.size(1)]
        out = first(x, edge_index, edge_attr, batch, subgraphs, states)
        for kernel in others:
            reads = kernel.calling is None or kernel.calling.edge_arguments
            given = narrow if reads else None
            out = out + kernel(x, edge_index, edge_attr, batch, subgraphs, given)
        if self.linear is not None:
            return self.after(out + self.linear(x))
        return self.after.added_to(x, out)


class Kernel(nn.Module):
    """One GNN inside an `OuterLayer`, with an encoder of the raw edge features.

    Args:
        gnn: A `GNNAK` layer, which runs on the rooted subgraphs, or any other GNN,
            which runs on the whole graph.
        channels: Width of the node states, in and out.
        edge_encoder: Maps raw edge features to edge states. It is None for GNNs that
            read no edge attributes. Only the first GNN of an `OuterLayer` may have one.
    """

    def __init__(
        self, gnn: nn.Module, channels: int, edge_encoder: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.gnn = gnn
        self.edge_encoder = edge_encoder
        if isinstance(gnn, GNNAK):
            self.calling = None
            widths = gnn.in_channels, gnn.out_channels
        else:
            origin = f"channels of the network, {channels}"
            self.calling = try_out(gnn, channels, origin)
            widths = channels, self.calling.out_channels
        if widths != (channels, channels):
            raise WidthError(
                f"{type(gnn).__name__} maps width {widths[0]} to {widths[1]} in a "
                f"network of width {channels}; build it with {channels} channels, in "
                "and out."
            )

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor,
        subgraphs: RootedSubgraphs | None,
        edge_states: Tensor | None = None,
    ) -> Tensor:
        """Compute new node states, [n, c].

        Args:
            x: Node states, [n, c].
            edge_index: Directed edges, [2, e].
            edge_attr: Raw edge features, [e, c] or [e]; None if the data has none.
            batch: Index of the graph that each node is in, [n].
            subgraphs: Rooted subgraphs. Only a `GNNAK` layer needs and uses them.
            edge_states: Encoded edge features, [e, c]. If None, `edge_attr` is encoded.
        """
        if edge_states is None and self.edge_encoder is not None:
            edge_states = self.edge_encoder(edge_attr, edge_index.size(1))
        if self.calling is not None:
            return run_on_graph(
                self.gnn, self.calling, x, edge_index, edge_states, batch
            )
        if subgraphs is None:
            raise SubgraphError(
                "an uplifted layer got no rooted subgraphs; build the network with an "
                "extractor, or pass subgraphs."
            )
        assert isinstance(self.gnn, GNNAK)
        self.gnn.encode_pairs(subgraphs, edge_index, batch)
        return self.gnn(x, subgraphs, edge_states)


@operation
def run_on_graph(
    gnn: nn.Module,
    calling: Calling,
    x: Tensor,
    edge_index: Tensor,
    edge_states: Tensor | None,
    batch: Tensor,
) -> Tensor:
    """Run a GNN on the whole graph; return its node states, [n, c]."""
    return calling(gnn, x, edge_index, edge_states, batch)
