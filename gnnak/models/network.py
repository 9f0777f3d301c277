"""The paper's network: encoder, outer layers, readout, head."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from gnnak.backend import operation
from gnnak.errors import GraphError, SubgraphError
from gnnak.graphs.adjacency import check_edge_index
from gnnak.graphs.real import RealCounts
from gnnak.models.layers import OuterLayer
from gnnak.nn.padding import on_graph
from gnnak.nn.recompute import recomputed
from gnnak.nn.segment import segment_reduce
from gnnak.nn.uplift import GNNAK
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.sampling.shared import SharedSubgraphs
from gnnak.subgraphs.extractors import Extractor
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Reduce, check_choice, check_count


class GraphLike(Protocol):
    """What the network reads of a PyG `Data` or `Batch`, or of a `GraphBatch`."""

    x: Tensor | None
    edge_index: Tensor | None
    edge_attr: Tensor | None
    batch: Tensor | None


class Network(nn.Module):
    """Node encoder, outer layers, readout, head; for graph and for node tasks.

    Args:
        encoder: From raw node features to states: `encoder(x, num_nodes)`.
        layers: The outer layers.
        head: From graph states, or node states, to the output.
        reduce: The readout pool; None for node tasks.
        extractor: Makes the rooted subgraphs where none are handed in; None where no
            layer needs them.
        drop: Samples the subgraphs that are used in training, anew in each forward
            pass; None = all are used. Evaluation uses all.
    """

    def __init__(
        self,
        encoder: nn.Module,
        layers: Sequence[OuterLayer],
        head: nn.Module,
        reduce: Reduce | None = "sum",
        extractor: Extractor | None = None,
        drop: SubgraphDrop | None = None,
    ) -> None:
        super().__init__()
        if reduce is not None:
            check_choice("reduce", reduce, ("sum", "mean"))
        self.encoder = encoder
        self.layers = nn.ModuleList(layers)
        self.head = head
        self.reduce: Reduce | None = reduce
        self.drop = drop
        self.shared = None if extractor is None else SharedSubgraphs(extractor, drop)
        self.recompute = False

    def save_memory(
        self, recompute: bool = True, max_copies: int | None = None
    ) -> None:
        """Trade time for memory; what is computed stays the same.

        Args:
            recompute: In training, save only the states between outer layers and
                recompute the activations inside them in the backward pass.
            max_copies: In evaluation, about how many copies of nodes a layer computes
                at a time; None = all at once.
        """
        if max_copies is not None:
            check_count("max_copies", max_copies, least=1)
        self.recompute = recompute
        for module in self.modules():
            if isinstance(module, GNNAK):
                module.max_copies = max_copies

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
        """Predict for a batch of graphs.

        Args:
            x: Raw node features, [n, c] or [n]; or a whole PyG `Data`, `Batch` or
                `GraphBatch`, and then nothing else but `subgraphs` and `num_graphs`.
            edge_index: Directed edges, [2, e].
            edge_attr: Raw edge features, [e, c] or [e].
            batch: The graph each node is in, [n]; one graph if not given.
            subgraphs: Rooted subgraphs of the batch; extracted here if not given.
            num_graphs: Number of graphs, g, for batches that end in empty graphs.
            generator: Source of randomness in training (walks, SubgraphDrop);
                PyTorch's own if not given.

        Returns:
            One row per graph, [g, out], or for node tasks per node, [n, out].
        """
        real = None
        if x is not None and not isinstance(x, Tensor):
            if num_graphs is None:
                num_graphs = getattr(x, "num_graphs", None)
            real = getattr(x, "real", None)
            x, edge_index, edge_attr, batch = _unpack(x)
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
            subgraphs = self._handed_in(subgraphs, edge_index, num_nodes, generator)
        elif self.shared is not None:
            self.shared.begin_pass()
            subgraphs = self.shared.get(edge_index, num_nodes, self.training, generator)
        with on_graph(real if isinstance(real, RealCounts) else None):
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
        """Run all outer layers, one after the other; arguments as of `OuterLayer`."""
        for layer in self.layers:
            given = (states, edge_index, edge_attr, batch, subgraphs)
            if self.recompute and self.training:
                states = recomputed(layer, *given)
            else:
                states = layer(*given)
        return states

    def _handed_in(
        self,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        num_nodes: int,
        generator: torch.Generator | None,
    ) -> RootedSubgraphs:
        """Return the subgraphs handed in, or in training a sample of them."""
        if isinstance(subgraphs, SampledSubgraphs):
            return subgraphs
        if subgraphs.num_subgraphs != num_nodes:
            raise SubgraphError(
                f"{subgraphs.num_subgraphs} subgraphs were handed in for {num_nodes} "
                "nodes; extract them from this very batch."
            )
        if self.drop is None or not self.training:
            return subgraphs
        return self.drop(subgraphs, edge_index, generator)


def _check_graph(
    edge_index: Tensor, batch: Tensor, num_nodes: int, num_graphs: int | None
) -> None:
    """Raise `GraphError` for a malformed graph; on a GPU, look at shapes only."""
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


def _unpack(
    data: GraphLike,
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    names = ("x", "edge_index", "edge_attr", "batch")
    x, edge_index, edge_attr, batch = (getattr(data, name, None) for name in names)
    return x, edge_index, edge_attr, batch
