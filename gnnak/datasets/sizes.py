"""Measure the rooted subgraphs of a data set and estimate the training memory.

A node copy is a node as seen in one rooted subgraph: a node that is in three rooted
subgraphs has three node copies. Edge copies are edges as seen in one rooted subgraph.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.errors import SizeError
from gnnak.graphs import GraphStore
from gnnak.graphs.ragged import counts_of
from gnnak.subgraphs.extractors import Extractor, extract

STATES_PER_COPY, STATES_PER_EDGE_COPY = 15, 1
"""Numbers of vectors that one GIN-AK+ layer saves for backward: for each node and for
each edge of every rooted subgraph.

Measured from the tensors that autograd saves on the data sets ZINC, EXP, counting and
IMDB-B. There, `SubgraphSizes.training_bytes` is accurate to 6 %."""
FLOAT_BYTES = 4
"""Bytes of a float32."""
CHUNK = 64
"""Number of graphs whose rooted subgraphs are extracted at a time."""


@dataclass(frozen=True, eq=False)
class SubgraphSizes:
    """Sizes of the rooted subgraphs of g graphs.

    A node copy is a node as seen in one rooted subgraph, and an edge copy is an edge as
    seen in one rooted subgraph.
    """

    nodes: Tensor
    """[g], int64: number of nodes of each graph, which is also its number of rooted
    subgraphs."""
    copies: Tensor
    """[g], int64: number of node copies of each graph: the sum of the numbers of nodes
    of its rooted subgraphs."""
    edge_copies: Tensor
    """[g], int64: number of edge copies of each graph: the sum of the numbers of edges
    of its rooted subgraphs."""

    @staticmethod
    def join(parts: "Sequence[SubgraphSizes]") -> "SubgraphSizes":
        """Return the sizes of several groups of graphs, one group after the other."""
        return SubgraphSizes(
            torch.cat([part.nodes for part in parts]),
            torch.cat([part.copies for part in parts]),
            torch.cat([part.edge_copies for part in parts]),
        )

    def training_bytes(
        self,
        batch_size: int,
        num_layers: int = 6,
        channels: int = 128,
        hop_channels: int = 16,
    ) -> float:
        r"""Estimate the memory in bytes that one training step of GIN-AK+ needs.

        The estimate is

        $$4 L (d + h)\,b\,(15\,\bar m + \bar f)$$

        for L GNN-AK layers, each with a base GNN of one layer. On average, the rooted
        subgraphs of one graph have $\bar m$ nodes and $\bar f$ edges in total. Memory
        for weights, optimiser state and the data is not included.

        Args:
            batch_size: Number of graphs in a batch, b.
            num_layers: Number of GNN-AK layers, L.
            channels: Width of the states, d.
            hop_channels: Width of the embedding of the distance to the root, h.
        """
        states = (
            STATES_PER_COPY * self.copies.double().mean()
            + STATES_PER_EDGE_COPY * self.edge_copies.double().mean()
        )
        return float(
            FLOAT_BYTES * num_layers * (channels + hop_channels) * batch_size * states
        )


def subgraph_sizes(
    store: GraphStore, extractor: Extractor, generator: torch.Generator | None = None
) -> Iterator[SubgraphSizes]:
    """Extract rooted subgraphs, `CHUNK` graphs at a time, and count nodes and edges.

    Args:
        store: The graphs.
        extractor: Extracts the rooted subgraphs: egonets or random walks.
        generator: Random number generator for random walks.

    Yields:
        The sizes of the rooted subgraphs of the next `CHUNK` graphs, in order.
    """
    for first in range(0, len(store), CHUNK):
        chunk = store.subset(slice(first, min(first + CHUNK, len(store))))
        yield _measure(chunk, extractor, generator)


def _measure(
    store: GraphStore, extractor: Extractor, generator: torch.Generator | None
) -> SubgraphSizes:
    """Extract the rooted subgraphs of all graphs of a store, and count nodes and edges.

    If all graphs together have too many copies for the memory, the store is halved.
    """
    batch = store.union()
    try:
        found = extract(
            extractor, batch.edge_index, batch.num_nodes, generator, batch.batch
        )
    except SizeError:
        if len(store) == 1:
            raise
        half = len(store) // 2
        halves = store.subset(slice(0, half)), store.subset(slice(half, len(store)))
        return SubgraphSizes.join([_measure(h, extractor, generator) for h in halves])
    graph = batch.batch.index_select(0, found.node)
    at_edge = graph.index_select(0, found.edge_index[0])
    return SubgraphSizes(
        batch.ptr.diff(),
        counts_of(graph, batch.num_graphs),
        counts_of(at_edge, batch.num_graphs),
    )
