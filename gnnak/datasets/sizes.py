"""How large the rooted subgraphs of a data set are, before anything is trained."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.graphs import GraphStore
from gnnak.graphs.ragged import counts_of
from gnnak.subgraphs.extractors import Extractor

STATES_A_COPY, STATES_AN_EDGE_COPY = 15, 1
"""States that training a GIN-AK+ keeps for each copy and layer, as counted from what
autograd saves on ZINC, EXP, counting and IMDB-B; right to 6 % there."""
NUMBER = 4
"""Bytes of a float32."""
CHUNK = 64
"""Graphs taken apart at a time."""


@dataclass(frozen=True, eq=False)
class SubgraphSizes:
    """Copies of some graphs of a data set."""

    nodes: Tensor
    """[g], int64: nodes of each graph, which is also its number of subgraphs."""
    copies: Tensor
    """[g], int64: node copies of each graph."""
    edge_copies: Tensor
    """[g], int64: edge copies of each graph."""

    def training_bytes(
        self,
        batch_size: int,
        num_layers: int = 6,
        channels: int = 128,
        hop_channels: int = 16,
    ) -> float:
        r"""Estimate of the memory that one training step of GIN-AK+ takes.

        $$4 L (d + h)\,b\,(15\,\bar m + \bar f)$$

        for L outer layers with one inner layer each, width d + h, and a batch of b
        graphs with $\bar m$ node copies and $\bar f$ edge copies on average. Weights,
        optimiser and the data itself come on top.

        Args:
            batch_size: Graphs in a batch, b.
            num_layers: Outer layers, L.
            channels: Width of the states, d.
            hop_channels: Width of the hop embedding, h.
        """
        states = (
            STATES_A_COPY * self.copies.double().mean()
            + STATES_AN_EDGE_COPY * self.edge_copies.double().mean()
        )
        return float(
            NUMBER * num_layers * (channels + hop_channels) * batch_size * states
        )


def subgraph_sizes(
    store: GraphStore, extractor: Extractor, generator: torch.Generator | None = None
) -> Iterator[SubgraphSizes]:
    """Extract the subgraphs of every graph, some graphs at a time, and count copies.

    Args:
        store: The graphs.
        extractor: Egonets or random walks.
        generator: Where walks come from.

    Yields:
        The sizes of the next graphs, in order.
    """
    for first in range(0, len(store), CHUNK):
        batch = store[slice(first, min(first + CHUNK, len(store)))]
        found = extractor(batch.edge_index, batch.num_nodes, generator)
        graph = batch.batch.index_select(0, found.node)
        at_edge = graph.index_select(0, found.edge_index[0])
        yield SubgraphSizes(
            batch.ptr.diff(),
            counts_of(graph, batch.num_graphs),
            counts_of(at_edge, batch.num_graphs),
        )
