"""Several graphs as one: the disjoint union that a model runs on."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.graphs.adjacency import check_edge_index
from gnnak.graphs.fields import check_counts, check_rows, check_tensor, describe
from gnnak.graphs.real import RealCounts


@dataclass(frozen=True, eq=False, repr=False)
class GraphBatch:
    """A disjoint union of graphs, with the attribute names of a PyG `Batch`.

    Nodes and edges of one graph stand together, graphs in the order they were asked
    for. All fields are on one device; every axis may be empty, and a graph without
    nodes, also at the end, still counts.
    """

    x: Tensor | None
    """[n, c]: node features, or None."""
    edge_index: Tensor
    """[2, e], int64, in 0..n-1 (counted over the whole batch): directed edges, each
    from a node to a node of the same graph."""
    edge_attr: Tensor | None
    """[e, c]: edge features, or None."""
    y: Tensor | None
    """[g, ...] targets of the graphs or [n, ...] targets of the nodes, or None."""
    batch: Tensor
    """[n], int64, in 0..g-1, not decreasing: the graph each node is in."""
    ptr: Tensor
    """[g + 1], int64: graph `i` has the nodes `ptr[i]` to `ptr[i + 1] - 1`."""
    real: RealCounts | None = None
    """How many rows of a padded batch are real; None = all rows are."""

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
        """Number of graphs, g; graphs without nodes count."""
        return self.ptr.numel() - 1

    @property
    def device(self) -> torch.device:
        """The device all fields are on."""
        return self.ptr.device

    def to(
        self, device: torch.device | str | int, non_blocking: bool = False
    ) -> GraphBatch:
        """Return this batch on another device."""
        moved = {
            field.name: getattr(self, field.name).to(device, non_blocking=non_blocking)
            for field in fields(self)
            if getattr(self, field.name) is not None
        }
        return replace(self, **moved)

    def __repr__(self) -> str:
        return (
            f"GraphBatch(graphs={self.num_graphs}, nodes={self.num_nodes}, "
            f"edges={self.num_edges}, x={describe(self.x)}, "
            f"edge_attr={describe(self.edge_attr)}, y={describe(self.y)}, "
            f"device='{self.device}')"
        )

    def check(self) -> GraphBatch:
        """Verify every sentence of the fields above and return the batch.

        Raises:
            GraphError: In one sentence, the first thing that is wrong.
        """
        check_counts("ptr", self.ptr)
        check_counts("batch", self.batch, self.device)
        self._check_ptr()
        check_tensor("edge_index", self.edge_index, self.device)
        check_edge_index(self.edge_index, self.num_nodes)
        source, target = self.edge_index
        if (self.batch[source] != self.batch[target]).any():
            raise GraphError("an edge joins two graphs; offset edge_index by ptr.")
        if self.x is not None:
            check_rows("x", self.x, self.num_nodes, "node", device=self.device)
        if self.edge_attr is not None:
            rows = self.num_edges
            check_rows("edge_attr", self.edge_attr, rows, "edge", device=self.device)
        if self.y is not None:
            self._check_targets(self.y)
        return self

    def _check_targets(self, y: Tensor) -> None:
        """A batch does not say whose targets these are: nodes' or graphs' will do."""
        rows, owner = self.num_graphs, "graph"
        if y.dim() and y.size(0) == self.num_nodes:
            rows, owner = self.num_nodes, "node"
        check_rows("y", y, rows, owner, columns=False, device=self.device)

    def _check_ptr(self) -> None:
        if not self.ptr.numel() or int(self.ptr[0]) != 0:
            raise GraphError("ptr must start with 0; give pointers(num_nodes).")
        sizes = torch.diff(self.ptr)
        if (sizes < 0).any() or int(self.ptr[-1]) != self.num_nodes:
            raise GraphError(
                f"ptr must not decrease and must end at {self.num_nodes}, the number "
                "of nodes; give pointers(num_nodes)."
            )
        graph = torch.arange(self.num_graphs, device=self.device)
        if not torch.equal(graph.repeat_interleave(sizes), self.batch):
            raise GraphError("batch is not what ptr says; repeat each graph's number.")
