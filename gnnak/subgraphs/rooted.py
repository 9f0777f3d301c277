"""`RootedSubgraphs`: all rooted subgraphs of a batch, as one dataclass of tensors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self, TypeVar

import torch
from torch import Tensor

from gnnak.errors import EdgeAttrError, SubgraphError
from gnnak.graphs.adjacency import check_edge_index, hops_to_root
from gnnak.graphs.fields import moved
from gnnak.graphs.ragged import counts_of
from gnnak.graphs.real import BatchAxis, RealCounts
from gnnak.subgraphs.groups import UNSAVED, Compact, GroupKey, Groups, group, group_each

TENSORS = ("root", "node", "subgraph", "hop", "edge_index", "edge")
"""Names of the fields of `RootedSubgraphs` that are tensors."""


T = TypeVar("T")
EncodingAxis = Literal["nodes", "copies"]
"""Whether a structural encoding has one row per node of the graph or per node copy."""
Axis = Literal["subgraph", "node", "target", "source", "edge", "taker", "giver"]
"""Keys that `RootedSubgraphs.by` can group by.

- "subgraph", "node": group the node copies.
- "target", "source", "edge": group the edge copies.
- "taker", "giver": group the entries of the matrix `SampledSubgraphs.filling` by row
  (the node that is estimated) or by column (the sampled subgraph).
"""


class Encoded(NamedTuple):
    """The values of a structural encoding for all rooted subgraphs of a batch."""

    axis: EncodingAxis
    rows: Tensor
    """[n, ...] or [m, ...], depending on `axis`."""
    extracted: bool = False
    """Whether the extractor, not a model, computed the encoding. If so, every batch has
    the encoding, and captured training steps can read it."""

    def at(self, rows: Tensor) -> Encoded:
        return self._replace(rows=self.rows.index_select(0, rows))


@dataclass(eq=False)
class Derived(Compact):
    """Cache of values computed from `RootedSubgraphs`; each is None until computed."""

    centroid: Tensor | None = None
    rooted_at: Tensor | None = None
    max_hop: int | None = None
    hop_range: tuple[int, int] | None = None
    in_order: bool | None = None
    hop_rows: dict[int, Tensor] = field(default_factory=dict)
    """Maps `size` to the cached result of `RootedSubgraphs.hop_rows(size)`."""
    by: dict[Axis, Groups] = field(default_factory=dict)
    encodings: dict[Hashable, Encoded] = field(default_factory=dict)
    """Maps each `StructuralEncoding` to its values."""
    others: dict[tuple[Hashable, ...], Any] = field(default_factory=dict)
    """Values that `RootedSubgraphs.once` caches, by their type and options."""


@dataclass(frozen=True, eq=False, repr=False)
class RootedSubgraphs(Compact):
    """Rooted subgraphs of one graph, or of a batch of graphs as a disjoint union.

    Every node is the root of one subgraph, unless you choose `roots` (see
    `gnnak.subgraphs.extract`) or use SubgraphDrop.

    A node in several subgraphs has one *node copy* in each of them: the copy of node
    `i` in the subgraph rooted at `j` has the state Emb(i|Sub[j]) of the paper. The base
    GNN runs on the disjoint union of all subgraphs: its nodes are the node copies and
    its edges, `edge_index`, are the edge copies. All tensors are int64 and on one
    device; every axis may be empty. In shapes, n and e are the numbers of nodes and
    edges of the graph, s is the number of subgraphs, and m and f are the numbers of
    node copies and edge copies.
    """

    root: Tensor
    """[s], in 0..n-1, distinct: the root node of each subgraph."""
    node: Tensor
    """[m], in 0..n-1: the node of each node copy. Node copies are sorted by (subgraph,
    node). Each subgraph contains its root and contains no node twice."""
    subgraph: Tensor
    """[m], in 0..s-1: the subgraph of each node copy."""
    hop: Tensor
    """[m]: the length of the shortest path from each node copy to the root, inside the
    subgraph (the paper's distance to the centroid, D2C). -1 if there is no path, or if
    the path is longer than the extractor's `max_hops`."""
    edge_index: Tensor
    """[2, f], in 0..m-1: the edges of all subgraphs, as source and target node copies,
    sorted by (target, source, edge). A subgraph has every edge of the graph between its
    nodes (it is induced), except with `NodeDeletion`, `MaskedEgoNets` and your own
    extractors."""
    edge: Tensor
    """[f], in 0..e-1: the edge of the graph that each edge copy is a copy of."""
    num_nodes: int | None = None
    """Number of nodes of the graph, n; None if unknown. Extractors always set it."""
    num_edges: int | None = None
    """Number of edges of the graph, e; None if unknown. Extractors always set it."""
    real: RealCounts | None = None
    """For tensors padded to a fixed size, the number of real rows on each axis: nodes,
    edges, subgraphs, node copies, edge copies. None without padding. Real rows come
    first, and only they have the properties above. Indices in padding rows refer to
    padding rows only."""

    @property
    def num_subgraphs(self) -> int:
        """Number of rooted subgraphs, s."""
        return self.root.numel()

    @property
    def num_copies(self) -> int:
        """Number of node copies, m: the total number of nodes of all subgraphs."""
        return self.node.numel()

    @property
    def num_edge_copies(self) -> int:
        """Number of edge copies, f: the total number of edges of all subgraphs."""
        return self.edge.numel()

    @property
    def device(self) -> torch.device:
        """The device of all fields."""
        return self.root.device

    @property
    def known_num_nodes(self) -> int:
        """Number of nodes of the graph, n; raises `SubgraphError` if unknown."""
        return _known(self.num_nodes)

    @property
    def derived(self) -> Derived:
        """The cache of values that are computed from the fields.

        Under `torch.compile`, it stays empty, since a write would cause a graph break.
        """
        if torch.compiler.is_compiling():
            return Derived()
        return self.__dict__.setdefault("_derived", Derived())

    @property
    def centroid(self) -> Tensor:
        """[s]: the node copy of each root in the subgraph of this root."""
        derived = self.derived
        if derived.centroid is None:
            with trainable():
                derived.centroid = self._find_centroids()
        return derived.centroid

    def _find_centroids(self) -> Tensor:
        is_root = self.node == self.root.index_select(0, self.subgraph)
        size = self.num_subgraphs
        if not torch.compiler.is_exporting():
            return torch.nonzero_static(is_root, size=size).flatten()
        # ONNX has no such operation. Copies of other nodes write to one more row.
        copy = torch.arange(self.num_copies, device=self.device)
        row = torch.where(is_root, self.subgraph, size)
        return copy.new_zeros(size + 1).index_put((row,), copy)[:size]

    @property
    def rooted_at(self) -> Tensor:
        """[n]: the subgraph rooted at each node; every node must be a root."""
        derived = self.derived
        if derived.rooted_at is None:
            with trainable():
                found = torch.empty_like(self.root)
                found[self.root] = torch.arange(self.num_subgraphs, device=self.device)
            derived.rooted_at = found
        return derived.rooted_at

    @property
    def max_hop(self) -> int:
        """The largest entry of `hop`; -1 if there are no subgraphs."""
        derived = self.derived
        if derived.max_hop is None:
            derived.max_hop = int(self.hop.max()) if self.num_copies else -1
        return derived.max_hop

    @property
    def hop_range(self) -> tuple[int, int] | None:
        """A lower and an upper bound of `hop`; None if the extractor did not set any.

        The bounds are known without reading `hop`, and need not be tight. The lower
        bound is -1 if a node may have no path to its root. Under `torch.compile`, this
        is None.
        """
        return self.derived.hop_range

    def hop_rows(self, size: int) -> Tensor:
        """Convert the distances to the root to rows of an embedding table, [m].

        Distance `i` becomes row `i`; distance -1 (no path to the root) becomes the last
        row. The result is cached after first use.

        Args:
            size: Number of rows of the embedding table; at least `max_hop + 2`.
        """
        least, largest = self.hop_range or (-1, size)
        if least >= 0 and largest < size:
            return self.hop
        return cached(self.derived.hop_rows, size, lambda: self.hop.remainder(size))

    @property
    def in_order(self) -> bool:
        """True if every node `i` is the root of subgraph `i`."""
        derived, size = self.derived, self.num_nodes
        if derived.in_order is None:
            every = torch.arange(self.num_subgraphs, device=self.device)
            derived.in_order = len(every) == size and torch.equal(self.root, every)
        return derived.in_order

    def has_some_roots(self, num_nodes: int) -> bool:
        """Return whether only some of the `num_nodes` nodes are roots.

        If so, layers compute the states of the roots only. With SubgraphDrop, this
        returns False, because layers also estimate the states of the dropped roots.
        """
        return self.num_subgraphs != num_nodes

    def by(self, axis: Axis) -> Groups:
        """Group node copies or edge copies by a key. The result is cached.

        Args:
            axis: The key. "subgraph" and "node" (needs `num_nodes`) group node copies;
                "target", "source" and "edge" (needs `num_edges`) group edge copies.

        Returns:
            For each group, the indices of its node copies or edge copies, in CSR form.
        """
        return cached(self.derived.by, axis, lambda: group(*self._group_key(axis)))

    def group_by(self, axes: Sequence[Axis]) -> None:
        """Cache the groups of several keys for `by`, with one sort for all keys.

        On a GPU, this is faster than one sort per key. For padded subgraphs, and under
        `torch.compile`, this method does nothing, and `by` computes the groups.

        Args:
            axes: The keys, as in `by`.
        """
        if torch.compiler.is_compiling() or self.real is not None:
            return
        missing = [axis for axis in axes if axis not in self.derived.by]
        with trainable():
            found = group_each([self._group_key(axis) for axis in missing])
        self.derived.by.update(zip(missing, found, strict=True))

    def _group_key(self, axis: Axis) -> GroupKey:
        if axis == "subgraph":
            return GroupKey(self.subgraph, self.num_subgraphs, in_order=True)
        if axis == "node":
            return GroupKey(self.node, self.known_num_nodes)
        if axis == "edge":
            return GroupKey(self.edge, _known(self.num_edges))
        assert axis in ("target", "source"), f"these subgraphs have no {axis}"
        end = self.edge_index[1 if axis == "target" else 0]
        return GroupKey(end, self.num_copies, in_order=axis == "target")

    @property
    def sizes(self) -> Tensor:
        """[s]: number of nodes of each subgraph."""
        return counts_of(self.subgraph, self.num_subgraphs)

    def once(
        self,
        kind: type[T],
        compute: Callable[[], T],
        *options: Hashable,
        saved: bool = True,
    ) -> T:
        """Return the cached value of type `kind`; at first use, compute and cache it.

        Args:
            kind: The type of the value.
            compute: Computes the value.
            options: Options of the value; with `kind`, they are the key of the cache.
            saved: Whether deep copies and pickles contain the value. Pass False for a
                value that is computed quickly, or holds only tensors of this object.
        """
        cache = self.derived.others
        if not saved and not torch.compiler.is_compiling():
            cache = self.__dict__.setdefault(UNSAVED, {})
        return cached(cache, (kind, *options), compute)

    def assume(self, **values: Any) -> Self:
        """Set fields of `Derived`, such as `centroid=...`, unchecked; return `self`.

        Data loaders compute these values for many batches at once, to save time.
        """
        self.__dict__["_derived"] = replace(self.derived, **values)
        return self

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """Return these subgraphs on another device. Arguments are those of `Tensor.to`.

        Cached properties, such as `centroid`, are recomputed when they are used.
        """
        return moved(self, device, non_blocking)

    def unpadded(self) -> RootedSubgraphs:
        """Return the subgraphs without padding; synchronises if there is padding."""
        if self.real is None:
            return self
        _, nodes, edges, s, m, f = self.real.counts.tolist()
        copies = self.node[:m], self.subgraph[:m], self.hop[:m], self.edge_index[:, :f]
        return RootedSubgraphs(self.root[:s], *copies, self.edge[:f], nodes, edges)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(subgraphs={self.num_subgraphs}, "
            f"node_copies={self.num_copies}, edge_copies={self.num_edge_copies}, "
            f"device='{self.device}')"
        )

    def check_edge_attr(self, edge_attr: Tensor) -> None:
        """Raise `EdgeAttrError` unless `edge_attr` has one row or number per edge.

        The shape must be [e, c] or [e]; any e is accepted if `num_edges` is None. Code
        compiled by `torch.compile` is not checked.
        """
        if torch.compiler.is_compiling():
            # Reading the number of edges would compile the code anew for each number.
            return
        wanted = "e" if self.num_edges is None else self.num_edges
        shape = list(edge_attr.shape) if isinstance(edge_attr, Tensor) else None
        fits = shape is not None and len(shape) in (1, 2)
        if not fits or wanted not in ("e", shape[0]):
            got = type(edge_attr).__name__ if shape is None else f"of shape {shape}"
            told = f"edge_attr is {got}; give [{wanted}, c] or [{wanted}], one row for"
            raise EdgeAttrError(f"{told} every column of edge_index.")

    def check(
        self,
        edge_index: Tensor | None = None,
        num_nodes: int | None = None,
        induced: bool = True,
    ) -> Self:
        """Check that all fields have their documented properties. Slow, for tests.

        Args:
            edge_index: The edges of the original graph, [2, e]. If set, the edges of
                the subgraphs are compared with these edges.
            num_nodes: Number of nodes of the graph; required with `edge_index`.
            induced: Whether to check that no edge between nodes of a subgraph is
                missing, which takes time proportional to s times e.

        Returns:
            This object.

        Raises:
            SubgraphError: If a property does not hold; the message names the first one.
        """
        other = None not in (num_nodes, self.num_nodes) and num_nodes != self.num_nodes
        told = f"the subgraphs are of a graph with {self.num_nodes} nodes"
        _refuse(other, f"{told}, not {num_nodes}.")
        _check_shapes(self)
        if self.real is not None:
            _check_padding(self, self.real.on_host())
            if edge_index is not None:
                edge_index = edge_index[:, : int(self.real.edges)]
            real_nodes = None if num_nodes is None else int(self.real.nodes)
            self.unpadded().check(edge_index, real_nodes, induced)
            return self
        _check_copies(self, num_nodes)
        _check_edges(self)
        if edge_index is not None:
            if num_nodes is None:
                raise SubgraphError("check() needs num_nodes with edge_index.")
            _check_against(self, edge_index, num_nodes, induced)
        return self


def cached(cache: dict[Any, T], key: Hashable, compute: Callable[[], T]) -> T:
    if key not in cache:
        with trainable():
            cache[key] = compute()
    return cache[key]


def trainable() -> AbstractContextManager:
    """Return a context without inference mode, so that autograd can use new tensors."""
    compiling = torch.compiler.is_compiling()
    return nullcontext() if compiling else torch.inference_mode(False)


def _refuse(wrong: Tensor | bool, told: str) -> None:
    if wrong:
        raise SubgraphError(told)


def _check_range(name: str, values: Tensor, size: int) -> None:
    outside = ((values < 0) | (values >= size)).any()
    _refuse(outside, f"{name} must lie in 0..{size - 1}.")


def _check_shapes(record: RootedSubgraphs) -> None:
    for name in TENSORS:
        value = getattr(record, name)
        if not isinstance(value, Tensor) or value.dtype != torch.long:
            raise SubgraphError(f"{name} must be an int64 tensor.")
        elsewhere = value.device != record.device
        _refuse(elsewhere, f"{name} is not on the same device as root.")
    shape = list(record.edge_index.shape)
    wrong = len(shape) != 2 or shape[0] != 2
    _refuse(wrong, f"edge_index has shape {shape}; it must be [2, f].")
    copies = {record.node.shape, record.subgraph.shape, record.hop.shape}
    flat = record.root.dim() == record.node.dim() == record.edge.dim() == 1
    wrong = len(copies) != 1 or not flat
    _refuse(wrong, "node, subgraph and hop must have the same shape, [m].")
    wrong = record.edge.numel() != shape[1]
    _refuse(wrong, "edge and edge_index must have the same length, f.")


def _check_padding(record: RootedSubgraphs, real: dict[BatchAxis, int]) -> None:
    cases: list[tuple[str, BatchAxis, BatchAxis, int | None]] = [
        ("root", "subgraphs", "nodes", record.num_nodes),
        ("node", "copies", "nodes", record.num_nodes),
        ("subgraph", "copies", "subgraphs", record.num_subgraphs),
        ("edge_index", "edge_copies", "copies", record.num_copies),
        ("edge", "edge_copies", "edges", record.num_edges),
    ]
    for name, rows, refers_to, size in cases:
        padding = getattr(record, name)[..., real[rows] :]
        outside = padding < real[refers_to]
        if size is not None:
            outside |= padding >= size
        told = f"a padding row of {name} refers to a row of {refers_to}"
        _refuse(outside.any(), f"{told} that is not padding.")


def _check_copies(record: RootedSubgraphs, num_nodes: int | None) -> None:
    size = record.num_nodes if num_nodes is None else num_nodes
    if size is None:
        both = torch.cat([record.root, record.node])
        size = int(both.max()) + 1 if both.numel() else 0
    _check_range("root", record.root, size)
    _check_range("node", record.node, size)
    _check_range("subgraph", record.subgraph, record.num_subgraphs)
    twice = record.root.unique().numel() != record.num_subgraphs
    _refuse(twice, "a node is the root of two subgraphs.")
    unsorted = (torch.diff(record.subgraph * size + record.node) <= 0).any()
    _refuse(unsorted, "copies must be sorted by (subgraph, node), without duplicates.")
    _refuse((record.centroid < 0).any(), "a subgraph does not contain its root.")


def _check_edges(record: RootedSubgraphs) -> None:
    check_edge_index(record.edge_index, record.num_copies)
    if record.num_edges is not None:
        _check_range("edge", record.edge, record.num_edges)
    source, target = record.edge_index
    across = (record.subgraph[source] != record.subgraph[target]).any()
    _refuse(across, "an edge copy joins two subgraphs.")
    same_target = torch.diff(target) == 0
    same_source = same_target & (torch.diff(source) == 0)
    unsorted = (
        (torch.diff(target) < 0).any()
        | (torch.diff(source)[same_target] < 0).any()
        | (torch.diff(record.edge)[same_source] <= 0).any()
    )
    _refuse(unsorted, "edge copies must be sorted by (target, source, edge).")
    bound = max(record.max_hop, 0)
    true = hops_to_root(record.edge_index, record.centroid, record.num_copies, bound)
    wrong = not torch.equal(true, record.hop)
    _refuse(wrong, "hop is not the distance to the root in the subgraph.")


def _check_against(
    record: RootedSubgraphs, edge_index: Tensor, num_nodes: int, induced: bool
) -> None:
    check_edge_index(edge_index, num_nodes)
    _check_range("edge", record.edge, edge_index.size(1))
    same = torch.equal(record.node[record.edge_index], edge_index[:, record.edge])
    _refuse(not same, "an edge copy does not have the same ends as its edge.")
    if not induced:
        return
    # An edge must have as many copies as there are subgraphs that contain both ends.
    wanted = torch.zeros(edge_index.size(1), dtype=torch.long, device=record.device)
    for index in range(record.num_subgraphs):
        inside = torch.zeros(num_nodes, dtype=torch.bool, device=record.device)
        inside[record.node[record.subgraph == index]] = True
        wanted += inside[edge_index].all(dim=0)
    missing = not torch.equal(wanted, counts_of(record.edge, edge_index.size(1)))
    _refuse(missing, "an edge with both ends in a subgraph has no copy.")


def _known(count: int | None) -> int:
    if count is None:
        told = "the size of the graph is unknown; build RootedSubgraphs with num_nodes"
        raise SubgraphError(f"{told} and num_edges.")
    return count
