"""Batches as the loader yields them, and the sizes they are padded to."""

from dataclasses import dataclass

from gnnak.graphs import GraphBatch
from gnnak.subgraphs.rooted import RootedSubgraphs


@dataclass(frozen=True)
class Shape:
    """The size of a padded batch on each axis, padding included."""

    graphs: int
    """Number of graphs. The last one is padding and contains all padding nodes."""
    nodes: int
    """Number of nodes."""
    edges: int
    """Number of directed edges."""
    subgraphs: int = 0
    """Number of rooted subgraphs; 0 for a batch without subgraphs."""
    copies: int = 0
    """Number of node copies; 0 for a batch without subgraphs."""
    edge_copies: int = 0
    """Number of edge copies; 0 for a batch without subgraphs."""
    fillings: int = 0
    """Number of entries of the `Filling`; 0 for a batch without SubgraphDrop."""


@dataclass(frozen=True, eq=False)
class Item:
    """A batch with its rooted subgraphs, padded or not."""

    batch: GraphBatch
    """The graphs."""
    subgraphs: RootedSubgraphs | None = None
    """The rooted subgraphs, or those that SubgraphDrop sampled; None if the network
    extracts them, or needs none."""
    shape: Shape | None = None
    """The sizes the batch is padded to; None = it is not padded."""
