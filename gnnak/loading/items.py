"""What a step of training is given: a batch, its subgraphs, and what is padding."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gnnak.graphs import GraphBatch
from gnnak.subgraphs.rooted import RootedSubgraphs


@dataclass(frozen=True)
class Shape:
    """Sizes of a padded batch: all batches of one shape have tensors of equal sizes.

    A BatchNorm knows by its number of rows what they are rows of, so sizes of
    different things are different numbers. Where every node has a subgraph, there are
    as many of these as nodes, and it is one number for both.
    """

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


ROWS = ("graphs", "nodes", "edges", "subgraphs", "copies", "edge_copies")
"""What a batch has rows of, in the order of `RealRows.rows`."""


@dataclass(frozen=True, eq=False)
class RealRows:
    """How many rows of a padded batch are real; on every axis they come first."""

    shape: Shape
    """The padded sizes."""
    rows: Tensor
    """[6], int64, on the batch's device: the real counts, in the order of `ROWS`."""

    @property
    def graphs(self) -> Tensor:
        """Real graphs, 0-dim."""
        return self.rows[0]

    @property
    def nodes(self) -> Tensor:
        """Real nodes, 0-dim."""
        return self.rows[1]

    @property
    def edges(self) -> Tensor:
        """Real edges, 0-dim."""
        return self.rows[2]

    @property
    def subgraphs(self) -> Tensor:
        """Real rooted subgraphs, 0-dim."""
        return self.rows[3]

    @property
    def copies(self) -> Tensor:
        """Real copies, 0-dim."""
        return self.rows[4]

    @property
    def edge_copies(self) -> Tensor:
        """Real edge copies, 0-dim."""
        return self.rows[5]

    def counts(self) -> dict[int, Tensor]:
        """From padded sizes to real counts, as `real_rows` takes them."""
        sizes = (getattr(self.shape, name) for name in ROWS)
        return dict(zip(sizes, self.rows.unbind(), strict=True))


@dataclass(frozen=True, eq=False)
class Item:
    """A batch with what was made for it ahead."""

    batch: GraphBatch
    """The graphs."""
    subgraphs: RootedSubgraphs | None = None
    """Their rooted subgraphs, or those that SubgraphDrop drew; None where the network
    extracts them itself, or needs none."""
    real: RealRows | None = None
    """What is not padding; None where nothing is padding."""
