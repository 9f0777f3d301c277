"""The one record that flows through the house: rooted subgraphs of a whole batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from gnnak.errors import EdgeAttrError, SubgraphError
from gnnak.graphs.adjacency import check_edge_index
from gnnak.graphs.ragged import counts_of
from gnnak.subgraphs.distances import hops_to_root

if TYPE_CHECKING:
    from torch_geometric.transforms.rooted_subgraph import RootedSubgraphData

T = TypeVar("T")

TENSORS = ("root", "node", "subgraph", "hop", "edge_index", "edge")
"""The fields of the record that are tensors."""


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
    def max_hop(self) -> int:
        """The largest hop of any copy, -1 if there is no copy; computed once."""
        return self._once(
            "max_hop", lambda: int(self.hop.max()) if self.num_copies else -1
        )

    @property
    def sizes(self) -> Tensor:
        """[s]: number of copies in each subgraph."""
        return counts_of(self.subgraph, self.num_subgraphs)

    def _once(self, name: str, compute: Callable[[], T]) -> T:
        """Compute a derived value at its first use and keep it with the record.

        Compiled code computes it where it stands: a kept value would break the graph.
        """
        if torch.compiler.is_compiling():
            return compute()
        kept = self.__dict__.setdefault("_kept", {})
        if name not in kept:
            kept[name] = compute()
        return kept[name]

    def to(self, device: torch.device | str) -> RootedSubgraphs:
        """Return this record on another device."""
        moved = {name: getattr(self, name).to(device) for name in TENSORS}
        return replace(self, **moved)

    def __repr__(self) -> str:
        return (
            f"RootedSubgraphs(subgraphs={self.num_subgraphs}, "
            f"node_copies={self.num_copies}, edge_copies={self.num_edge_copies}, "
            f"device='{self.device}')"
        )

    def check_edge_attr(self, edge_attr: Tensor) -> None:
        """Raise `EdgeAttrError` unless `edge_attr` has one row, or weight, per edge."""
        wanted = "e" if self.num_edges is None else self.num_edges
        wrong = self.num_edges is not None and len(edge_attr) != self.num_edges
        if edge_attr.dim() not in (1, 2) or wrong:
            raise EdgeAttrError(
                f"edge_attr has shape {list(edge_attr.shape)}; give [{wanted}, c] or "
                f"[{wanted}], a row for every column of edge_index."
            )

    def check(
        self, edge_index: Tensor | None = None, num_nodes: int | None = None
    ) -> RootedSubgraphs:
        """Verify every sentence of the fields above and return the record.

        Args:
            edge_index: The graph the record was taken from, [2, e]; with it, the edge
                copies are also compared with the graph's edges, one by one.
            num_nodes: The graph's number of nodes; required with `edge_index`.

        Raises:
            SubgraphError: In one sentence, the first invariant that is broken.
        """
        self._check_shapes()
        self._check_copies(num_nodes)
        self._check_edges()
        self._check_hops()
        if edge_index is not None:
            if num_nodes is None:
                raise SubgraphError("check() needs num_nodes beside edge_index.")
            self._check_against(edge_index, num_nodes)
        return self

    def _check_shapes(self) -> None:
        for name in TENSORS:
            value = getattr(self, name)
            if not isinstance(value, Tensor) or value.dtype != torch.long:
                raise SubgraphError(f"{name} must be an int64 tensor.")
            if value.device != self.root.device:
                raise SubgraphError(f"{name} is on another device than root.")
        if self.edge_index.dim() != 2 or self.edge_index.size(0) != 2:
            shape = list(self.edge_index.shape)
            raise SubgraphError(f"edge_index has shape {shape}; it must be [2, f].")
        copies = {self.node.shape, self.subgraph.shape, self.hop.shape}
        flat = self.root.dim() == self.node.dim() == self.edge.dim() == 1
        if len(copies) != 1 or not flat:
            raise SubgraphError("node, subgraph and hop must have one shape, [m].")
        if self.edge.numel() != self.edge_index.size(1):
            raise SubgraphError("edge and edge_index must have one length, f.")

    def _check_copies(self, num_nodes: int | None) -> None:
        size = self.num_nodes if num_nodes is None else num_nodes
        if size is None:
            both = torch.cat([self.root, self.node])
            size = int(both.max()) + 1 if both.numel() else 0
        for name, value, bound in (
            ("root", self.root, size),
            ("node", self.node, size),
            ("subgraph", self.subgraph, self.num_subgraphs),
        ):
            if value.numel() and (value.min() < 0 or value.max() >= bound):
                raise SubgraphError(f"{name} must lie in 0..{bound - 1}.")
        if self.root.unique().numel() != self.num_subgraphs:
            raise SubgraphError("a node is the root of two subgraphs.")
        if (torch.diff(self.subgraph * size + self.node) <= 0).any():
            raise SubgraphError(
                "copies must be sorted by (subgraph, node), a node once a subgraph."
            )
        if (self.centroid < 0).any():
            raise SubgraphError("a subgraph does not hold its own root.")

    def _check_edges(self) -> None:
        check_edge_index(self.edge_index, self.num_copies)
        source, target = self.edge_index
        if (self.subgraph[source] != self.subgraph[target]).any():
            raise SubgraphError("an edge copy joins two subgraphs.")
        same_target = torch.diff(target) == 0
        same_source = same_target & (torch.diff(source) == 0)
        if (
            (torch.diff(target) < 0).any()
            or (torch.diff(source)[same_target] < 0).any()
            or (torch.diff(self.edge)[same_source] <= 0).any()
        ):
            raise SubgraphError("edge copies must be sorted by (target, source, edge).")

    def _check_hops(self) -> None:
        bound = max(self.max_hop, 0)
        true = hops_to_root(self.edge_index, self.centroid, self.num_copies, bound)
        if not torch.equal(true, self.hop):
            raise SubgraphError("hop is not the distance to the root in the subgraph.")

    def _check_against(self, edge_index: Tensor, num_nodes: int) -> None:
        check_edge_index(edge_index, num_nodes)
        if self.edge.numel() and (
            self.edge.min() < 0 or self.edge.max() >= edge_index.size(1)
        ):
            raise SubgraphError(f"edge must lie in 0..{edge_index.size(1) - 1}.")
        if not torch.equal(self.node[self.edge_index], edge_index[:, self.edge]):
            raise SubgraphError("an edge copy stands for another edge than it says.")
        # Edge by edge, how many subgraphs hold both ends: each must have a copy there.
        held = torch.zeros(edge_index.size(1), dtype=torch.long, device=self.device)
        for index in range(self.num_subgraphs):
            inside = torch.zeros(num_nodes, dtype=torch.bool, device=self.device)
            inside[self.node[self.subgraph == index]] = True
            held += inside[edge_index].all(dim=0)
        if not torch.equal(held, counts_of(self.edge, edge_index.size(1))):
            raise SubgraphError("an edge with both ends in a subgraph has no copy.")

    @staticmethod
    def from_pyg(data: RootedSubgraphData) -> RootedSubgraphs:
        """Convert the output of PyG's `RootedEgoNets` (or `RootedRWSubgraph`).

        Args:
            data: One `RootedSubgraphData`, or a `Batch` of them from a PyG loader.

        PyG keeps no distances; they are computed here. Works on batches because PyG
        offsets the fields of each graph when it collates.
        """
        for name in ("n_id", "n_sub_batch", "sub_edge_index", "e_id"):
            if getattr(data, name, None) is None:
                raise SubgraphError(
                    f"this data has no {name}; apply PyG's RootedEgoNets first."
                )
        node, subgraph, edge = data.n_id, data.n_sub_batch, data.e_id
        root = torch.arange(int(data.num_nodes), device=node.device)
        order = torch.argsort(subgraph * root.numel() + node)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(order.numel(), device=order.device)
        ends = rank[data.sub_edge_index]
        by_edge = torch.argsort(edge, stable=True)
        by_ends = (ends[1] * order.numel() + ends[0])[by_edge]
        by_all = by_edge[torch.argsort(by_ends, stable=True)]
        node, subgraph, ends = node[order], subgraph[order], ends[:, by_all]
        centroid = (node == root[subgraph]).nonzero().flatten()
        hop = hops_to_root(ends, centroid, node.numel(), max_hops=node.numel())
        return RootedSubgraphs(
            root,
            node,
            subgraph,
            hop,
            ends,
            edge[by_all],
            num_nodes=root.numel(),
            num_edges=int(data.num_edges),
        )
