"""Batches as the loader yields them, and the sizes they are padded to."""

from dataclasses import dataclass

from gnnak.graphs import GraphBatch
from gnnak.subgraphs.rooted import RootedSubgraphs


@dataclass(frozen=True)
class Shape:
    """The sizes of a padded batch, on every axis."""

    graphs: int
    """Graphs, those that are padding included: the last one holds the padding nodes."""
    nodes: int
    """Nodes."""
    edges: int
    """Directed edges."""
    subgraphs: int = 0
    """Rooted subgraphs; 0 for a batch that has none, as below."""
    copies: int = 0
    """Copies of nodes."""
    edge_copies: int = 0
    """Copies of edges."""
    fillings: int = 0
    """Entries of a `Filling`; 0 where no subgraph was dropped."""


@dataclass(frozen=True, eq=False)
class Item:
    """A batch with its rooted subgraphs; both know their real rows if padded."""

    batch: GraphBatch
    """The graphs."""
    subgraphs: RootedSubgraphs | None = None
    """Their rooted subgraphs, or those that SubgraphDrop sampled; None where the network
    extracts them, or needs none."""
    shape: Shape | None = None
    """The sizes it was padded to; None = it is not padded."""
