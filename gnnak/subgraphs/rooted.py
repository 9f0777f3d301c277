"""`RootedSubgraphs`: all rooted subgraphs of a batch, in one record of flat tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeVar

import torch
from torch import Tensor

from gnnak.errors import EdgeAttrError, SubgraphError
from gnnak.graphs.ragged import counts_of
from gnnak.graphs.real import RealCounts
from gnnak.subgraphs.groups import Groups, group
from gnnak.subgraphs.invariants import TENSORS, check_record

T = TypeVar("T")
Axis = Literal["subgraph", "node", "target", "source", "edge", "taker", "giver"]
"""Keys to group by: node copies by "subgraph" or "node"; edge copies by "target",
"source" or "edge"; and in `SampledSubgraphs`, entries of the `Filling` by "taker", the
node that gets a value, or "giver", the subgraph that it comes from."""


@dataclass(frozen=True, eq=False, repr=False)
class RootedSubgraphs:
    """Rooted subgraphs of one graph, or of a batch of graphs as a disjoint union.

    A node that is in several subgraphs has one *copy* in each of them: the copy of node
    `i` in the subgraph rooted at `j` has the state Emb(i|Sub[j]) of the paper. Node
    copies and edge copies form the graph that the base GNN runs on, the disjoint union
    of all subgraphs, with `num_copies` nodes and the edges `edge_index`. All tensors
    are int64 and on one device; every axis may be empty.
    """

    root: Tensor
    """[s], in 0..n-1, distinct: the root of each subgraph."""
    node: Tensor
    """[m], in 0..n-1: the node that each copy is a copy of. Copies are sorted by
    (subgraph, node). A subgraph contains a node at most once, and always its root."""
    subgraph: Tensor
    """[m], in 0..s-1: the subgraph that each copy is in."""
    hop: Tensor
    """[m]: length of the shortest path from the copy to its root inside the subgraph,
    the distance to the centroid (D2C); -1 if there is no path within the largest
    distance of the extraction."""
    edge_index: Tensor
    """[2, f], in 0..m-1: the edge copies. Each edge of the graph with both ends in a
    subgraph has a copy there. Sorted by (target, source, edge)."""
    edge: Tensor
    """[f], in 0..e-1: the edge of the graph that each edge copy is a copy of."""
    num_nodes: int | None = None
    """Number of nodes of the graph, n; None if unknown. Extractors set it."""
    num_edges: int | None = None
    """Number of edges of the graph, e; None if unknown. Extractors set it."""
    real: RealCounts | None = None
    """Numbers of real rows of a padded record; None = there is no padding. The
    properties above hold for real rows, which come first. The indices in padding rows
    refer to padding rows of the other axes."""

    @property
    def num_subgraphs(self) -> int:
        """Number of rooted subgraphs, s."""
        return self.root.numel()

    @property
    def num_copies(self) -> int:
        """Number of node copies, m."""
        return self.node.numel()

    @property
    def num_edge_copies(self) -> int:
        """Number of edge copies, f."""
        return self.edge.numel()

    @property
    def device(self) -> torch.device:
        """The device all fields are on."""
        return self.root.device

    @property
    def centroid(self) -> Tensor:
        """[s]: the copy of each root in its own subgraph; cached."""
        return self._once("centroid", self._find_centroid)

    def _find_centroid(self) -> Tensor:
        is_centroid = self.node == self.root.index_select(0, self.subgraph)
        return torch.nonzero_static(is_centroid, size=self.num_subgraphs).flatten()

    @property
    def rooted_at(self) -> Tensor:
        """[n]: the subgraph rooted at each node; cached. Every node must be a root."""
        return self._once("rooted_at", self._find_rooted_at)

    def _find_rooted_at(self) -> Tensor:
        found = torch.empty_like(self.root)
        found[self.root] = torch.arange(self.num_subgraphs, device=self.device)
        return found

    @property
    def max_hop(self) -> int:
        """Largest hop of all copies, -1 if there are no copies; cached."""
        return self._once(
            "max_hop", lambda: int(self.hop.max()) if self.num_copies else -1
        )

    def hop_rows(self, size: int) -> Tensor:
        """Return the row of each copy's hop in a table with one row per hop, [m].

        Hop -1 is the last row. The result is cached.

        Args:
            size: Number of rows of the table; at least `max_hop + 2`.
        """
        return self._once(f"rows of {size}", lambda: self.hop.remainder(size))

    @property
    def in_order(self) -> bool:
        """Whether subgraph i is rooted at node i, for all nodes; cached."""
        return self._once("in_order", self._is_in_order)

    def _is_in_order(self) -> bool:
        if self.num_nodes != self.num_subgraphs:
            return False
        return torch.equal(self.root, torch.arange(self.num_nodes, device=self.device))

    def by(self, axis: Axis) -> Groups:
        """Return the copies, or edge copies, grouped by a key; cached.

        Args:
            axis: The key; see `Axis`. "node" needs `num_nodes`, "edge" `num_edges`.
        """
        return self._once(f"by {axis}", lambda: self._group(axis))

    def _group(self, axis: Axis) -> Groups:
        if axis == "subgraph":
            return group(self.subgraph, self.num_subgraphs, in_order=True)
        if axis == "node":
            return group(self.node, _known(self.num_nodes))
        if axis == "edge":
            return group(self.edge, _known(self.num_edges))
        assert axis in ("target", "source"), f"these subgraphs have no {axis}"
        end = self.edge_index[1 if axis == "target" else 0]
        return group(end, self.num_copies, in_order=axis == "target")

    @property
    def sizes(self) -> Tensor:
        """[s]: number of copies in each subgraph."""
        return counts_of(self.subgraph, self.num_subgraphs)

    def _once(self, name: str, compute: Callable[[], T]) -> T:
        """Compute a derived value at its first use, and cache it in the record.

        In code compiled by `torch.compile`, values are computed at every use, because
        writing to the cache would break the graph.

        Args:
            name: Key of the value in the cache.
            compute: Computes the value.
        """
        if torch.compiler.is_compiling():
            return compute()
        derived = self.__dict__.setdefault("_derived", {})
        if name not in derived:
            # An inference tensor in the cache could not be used in training later.
            with torch.inference_mode(False):
                derived[name] = compute()
        return derived[name]

    def assume(self, **values: object) -> Self:
        """Store derived values in the cache, so that they are not computed again.

        Loaders compute them for many batches at once.

        Args:
            values: Values by the name of the property that returns them; for the method
                `by`, a dict from axis to `Groups`.

        Returns:
            The record itself.
        """
        derived = self.__dict__.setdefault("_derived", {})
        groups = values.pop("by", {})
        assert isinstance(groups, dict)
        derived |= values | {f"by {axis}": found for axis, found in groups.items()}
        return self

    def to(self, device: torch.device | str) -> Self:
        """Return a copy of the record on another device."""
        moved = {name: getattr(self, name).to(device) for name in TENSORS}
        real = None if self.real is None else self.real.to(device)
        return replace(self, **moved, real=real)

    def unpadded(self) -> RootedSubgraphs:
        """Return the real rows as a record without padding; synchronises."""
        if self.real is None:
            return self
        real = self.real.on_host()
        return RootedSubgraphs(
            self.root[: real["subgraphs"]],
            self.node[: real["copies"]],
            self.subgraph[: real["copies"]],
            self.hop[: real["copies"]],
            self.edge_index[:, : real["edge_copies"]],
            self.edge[: real["edge_copies"]],
            real["nodes"],
            real["edges"],
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(subgraphs={self.num_subgraphs}, "
            f"node_copies={self.num_copies}, edge_copies={self.num_edge_copies}, "
            f"device='{self.device}')"
        )

    def check_edge_attr(self, edge_attr: Tensor) -> None:
        """Raise `EdgeAttrError` unless `edge_attr` has one row or number per edge."""
        wanted = "e" if self.num_edges is None else self.num_edges
        shape = list(edge_attr.shape) if isinstance(edge_attr, Tensor) else None
        fits = shape is not None and len(shape) in (1, 2)
        if not fits or wanted not in ("e", shape[0]):
            got = type(edge_attr).__name__ if shape is None else f"of shape {shape}"
            raise EdgeAttrError(
                f"edge_attr is {got}; give [{wanted}, c] or [{wanted}], one row for "
                "every column of edge_index."
            )

    def check(
        self, edge_index: Tensor | None = None, num_nodes: int | None = None
    ) -> Self:
        """Verify the documented properties of all fields.

        For tests, not for training: with `edge_index`, its run time is proportional to
        the number of subgraphs times the number of edges.

        Args:
            edge_index: The edges of the graph that the subgraphs are of, [2, e]; if
                given, edge copies are compared with these edges, too.
            num_nodes: Number of nodes of that graph; required with `edge_index`.

        Returns:
            The record itself.

        Raises:
            SubgraphError: If a property does not hold; the message names the first one.
        """
        check_record(self, edge_index, num_nodes)
        return self


def _known(count: int | None) -> int:
    """Return `count`; raise `SubgraphError` if it is None."""
    if count is None:
        raise SubgraphError(
            "the size of the graph is not set in this record; build it with num_nodes "
            "and num_edges."
        )
    return count
