"""Batches as the loader yields them, and the sizes they are padded to.

The sizes include the numbers of node copies (nodes as they occur in one rooted
subgraph) and edge copies (edges as they occur in one rooted subgraph).
"""

from dataclasses import dataclass, field
from typing import Any

from gnnak.graphs import GraphBatch
from gnnak.subgraphs.rooted import RootedSubgraphs


@dataclass(frozen=True)
class Shape:
    """How many graphs, nodes, edges and so on a padded batch has, with the padding."""

    graphs: int
    """Number of graphs. The last graph is padding: it consists of all padding nodes."""
    nodes: int
    """Number of nodes."""
    edges: int
    """Number of directed edges."""
    subgraphs: int = 0
    """Number of rooted subgraphs; 0 for a batch without subgraphs."""
    copies: int = 0
    """Number of nodes of all rooted subgraphs together (node copies); 0 for a batch
    without subgraphs."""
    edge_copies: int = 0
    """Number of edges of all rooted subgraphs together (edge copies); 0 for a batch
    without subgraphs."""
    fillings: int = 0
    """Number of entries of the `Filling`, the sparse matrix that estimates encodings of
    dropped roots from sampled ones; 0 for a batch without SubgraphDrop."""


@dataclass(frozen=True, eq=False)
class Item:
    """A batch with its rooted subgraphs, padded or not."""

    batch: GraphBatch
    """The graphs."""
    subgraphs: RootedSubgraphs | None = None
    """The rooted subgraphs of the batch; with SubgraphDrop only the sampled ones. None
    if the network extracts subgraphs itself, or needs none."""
    shape: Shape | None = None
    """The sizes that the batch is padded to; None = the batch is not padded. Batches
    that have the same sizes without padding may have a shape, too."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further fields of the batch by name; for example, positions of nodes."""
    sizes: dict[str, int] | None = None
    """For a padded batch, how many graphs, nodes and so on are not padding: the numbers
    in `batch.real`, on the host. None = the batch is not padded."""
    positions: list[int] | None = None
    """Positions of the batch's graphs in the store; None = not given."""
