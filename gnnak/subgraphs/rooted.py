"""`RootedSubgraphs`: the record of the rooted subgraphs of a whole batch."""

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
"""What rows may share; the last two are of subgraphs that were sampled."""


@dataclass(frozen=True, eq=False, repr=False)
class RootedSubgraphs:
    """Rooted subgraphs of one graph, or of a batch of graphs as a disjoint union.

    Node `i` seen in the subgraph rooted at `j` is a *copy*, the paper's Emb(i|Sub[j]).
    The copies and edge copies together are the union graph that the base GNN runs on,
    a plain (`edge_index`, `num_copies`) graph in which no edge joins two subgraphs.
    All fields are int64 on one device; every axis may be empty.
    """

    root: Tensor
    """[s], in 0..n-1, each node at most once: the node each subgraph is rooted at."""
    node: Tensor
    """[m], in 0..n-1: the node each copy stands for. Copies are sorted by (subgraph,
    node), a node stands in a subgraph at most once, and a root in its own always."""
    subgraph: Tensor
    """[m], in 0..s-1: the subgraph each copy is in."""
    hop: Tensor
    """[m]: length of the shortest path from the copy to its root inside the subgraph,
    -1 where there is none within the bound of the extraction."""
    edge_index: Tensor
    """[2, f], in 0..m-1: every edge of the graph with both ends in one subgraph, as an
    edge between their copies, sorted by (target, source, edge)."""
    edge: Tensor
    """[f], in 0..e-1: the edge of the graph each edge copy stands for."""
    num_nodes: int | None = None
    """The graph's number of nodes, n, where known: extraction knows it."""
    num_edges: int | None = None
    """The graph's number of edges, e, where known."""
    real: RealCounts | None = None
    """How many rows of a padded record are real; None = all rows are. The sentences
    above hold for the real rows. Padding rows follow them, and their indices refer to
    padding rows of the other axes."""

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
        """[s]: the copy of each root in its own subgraph; computed once."""
        return self._once("centroid", self._find_centroid)

    def _find_centroid(self) -> Tensor:
        is_centroid = self.node == self.root.index_select(0, self.subgraph)
        return torch.nonzero_static(is_centroid, size=self.num_subgraphs).flatten()

    @property
    def rooted_at(self) -> Tensor:
        """[n]: the subgraph rooted at each node, if every node has one; found once."""
        return self._once("rooted_at", self._find_rooted_at)

    def _find_rooted_at(self) -> Tensor:
        found = torch.empty_like(self.root)
        found[self.root] = torch.arange(self.num_subgraphs, device=self.device)
        return found

    @property
    def max_hop(self) -> int:
        """The largest hop of any copy, -1 if there is no copy; computed once."""
        return self._once(
            "max_hop", lambda: int(self.hop.max()) if self.num_copies else -1
        )

    def hop_rows(self, size: int) -> Tensor:
        """[m]: each hop's row of a table of `size` rows, the last one that of -1.

        Computed once.
        """
        return self._once(f"rows of {size}", lambda: self.hop.remainder(size))

    @property
    def in_order(self) -> bool:
        """Whether subgraph i is rooted at node i, for all nodes; computed once."""
        return self._once("in_order", self._is_in_order)

    def _is_in_order(self) -> bool:
        if self.num_nodes != self.num_subgraphs:
            return False
        return torch.equal(self.root, torch.arange(self.num_nodes, device=self.device))

    def by(self, axis: Axis) -> Groups:
        """Copies grouped by subgraph or node, or edge copies by end or edge.

        Computed once; needs `num_nodes` for "node" and `num_edges` for "edge".
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
        """Compute a derived value at its first use and cache it in the record.

        Compiled code computes it at every use: a cache would break its graph.
        """
        if torch.compiler.is_compiling():
            return compute()
        derived = self.__dict__.setdefault("_derived", {})
        if name not in derived:
            # A value that is first used in inference may be needed in training, too.
            with torch.inference_mode(False):
                derived[name] = compute()
        return derived[name]

    def assume(self, **values: object) -> Self:
        """Set derived values that are already known, named like the properties.

        Loaders derive them for many batches at once.

        Args:
            values: Values by the name of their property; `by` takes a dict with the
                `Groups` of each axis.
        """
        derived = self.__dict__.setdefault("_derived", {})
        groups = values.pop("by", {})
        assert isinstance(groups, dict)
        derived |= values | {f"by {axis}": found for axis, found in groups.items()}
        return self

    def to(self, device: torch.device | str) -> Self:
        """Return this record on another device."""
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
        """Raise `EdgeAttrError` unless `edge_attr` has one row, or weight, per edge."""
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
        """Verify every sentence of the fields above and return the record.

        A verifier for tests, not for training: with `edge_index` it takes time in
        proportion to subgraphs times edges.

        Args:
            edge_index: The graph the record was taken from, [2, e]; with it, the edge
                copies are also compared with the graph's edges, one by one.
            num_nodes: The graph's number of nodes; required with `edge_index`.

        Raises:
            SubgraphError: In one sentence, the first invariant that is broken.
        """
        check_record(self, edge_index, num_nodes)
        return self


def _known(count: int | None) -> int:
    if count is None:
        raise SubgraphError(
            "this record does not know the size of its graph; give num_nodes and "
            "num_edges."
        )
    return count
