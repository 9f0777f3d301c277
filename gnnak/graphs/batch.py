"""A batch of graphs as one disjoint union, the input of a model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs.adjacency import check_edge_index
from gnnak.graphs.fields import check_counts, check_rows, check_tensor, describe, moved
from gnnak.graphs.real import RealCounts


@dataclass(frozen=True, eq=False, repr=False)
class GraphBatch:
    """A disjoint union of graphs, with the attribute names of a PyG `Batch`.

    Graphs are concatenated: the nodes of one graph are contiguous, and so are its
    edges. All fields are on one device. Every axis may be empty; graphs without nodes
    are allowed, even at the end of the batch. In shapes, n, e and g are the numbers of
    nodes, edges and graphs of the batch.
    """

    x: Tensor | None
    """[n, c]: node features; None if nodes have no features."""
    edge_index: Tensor
    """[2, e], int64, in 0..n-1: directed edges. Nodes are numbered over the whole
    batch, and both ends of an edge are in the same graph."""
    edge_attr: Tensor | None
    """[e, c]: edge features; None if edges have no features."""
    y: Tensor | None
    """Training targets: one row per graph, [g, ...], or one row per node, [n, ...].
    None if there are no targets."""
    batch: Tensor
    """[n], int64, in 0..g-1, sorted: the index of the graph each node belongs to."""
    ptr: Tensor
    """[g + 1], int64: row pointer; the nodes of graph `i` are `ptr[i]:ptr[i + 1]`."""
    real: RealCounts | None = None
    """Numbers of nodes, edges and graphs that are not padding; None without padding."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return self.batch.numel()

    @property
    def num_edges(self) -> int:
        """Number of directed edges, e."""
        return self.edge_index.size(1)

    @property
    def num_graphs(self) -> int:
        """Number of graphs, g, including graphs without nodes."""
        return self.ptr.numel() - 1

    @property
    def device(self) -> torch.device:
        """The device of all fields."""
        return self.ptr.device

    def to(
        self, device: torch.device | str | int, non_blocking: bool = False
    ) -> GraphBatch:
        """Return this batch on another device; the arguments are as in `Tensor.to`."""
        return moved(self, device, non_blocking)

    def __repr__(self) -> str:
        return (
            f"GraphBatch(graphs={self.num_graphs}, nodes={self.num_nodes}, "
            f"edges={self.num_edges}, x={describe(self.x)}, "
            f"edge_attr={describe(self.edge_attr)}, y={describe(self.y)}, "
            f"device='{self.device}')"
        )

    def check(self) -> GraphBatch:
        """Check that fields are as the class documents them, and return the batch.

        Raises:
            GraphError: If a field is wrong; the message names the first one.
        """
        check_counts("ptr", self.ptr)
        check_counts("batch", self.batch, self.device)
        if not self.ptr.numel() or int(self.ptr[0]) != 0:
            raise GraphError("ptr must start with 0; use pointers(num_nodes).")
        sizes = torch.diff(self.ptr)
        if (sizes < 0).any() or int(self.ptr[-1]) != self.num_nodes:
            told = f"ptr must not decrease and must end at {self.num_nodes}, the number"
            raise GraphError(f"{told} of nodes; use pointers(num_nodes).")
        graph = torch.arange(self.num_graphs, device=self.device)
        if not torch.equal(graph.repeat_interleave(sizes), self.batch):
            told = "batch does not match ptr"
            raise GraphError(f"{told}; repeat each graph's index once per node.")
        check_tensor("edge_index", self.edge_index, self.device)
        check_edge_index(self.edge_index, self.num_nodes)
        source, target = self.edge_index
        if (self.batch[source] != self.batch[target]).any():
            raise GraphError("an edge connects two graphs; offset edge_index by ptr.")
        rows, edges, owner = self.num_graphs, self.num_edges, "graph"
        if self.y is not None and self.y.shape[:1] == (self.num_nodes,):
            rows, owner = self.num_nodes, "node"
        check_rows("x", self.x, self.num_nodes, "node", device=self.device)
        check_rows("edge_attr", self.edge_attr, edges, "edge", device=self.device)
        check_rows("y", self.y, rows, owner, columns=False, device=self.device)
        return self
