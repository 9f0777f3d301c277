"""`GraphStore`: many graphs as flat tensors. Also adds and removes reverse edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnnak.errors import GraphError, counted
from gnnak.graphs.batch import GraphBatch
from gnnak.graphs.fields import (
    check_alike,
    check_counts,
    check_local_edges,
    check_rows,
    describe,
    moved,
)
from gnnak.graphs.ragged import counts_of, pointers, ragged_ranges

Indices = int | slice | Sequence[int] | Sequence[bool] | np.ndarray | Tensor
"""Values that select graphs; a sequence of bools is a mask."""

KINDS = "an int, a slice, a list, or a tensor of bools or ints"


def as_indices(indices: Indices, size: int) -> Tensor:
    """Convert `indices` to positions in 0..size-1; negative ints count from the end.

    >>> as_indices([-1, 0, 0], 5), as_indices(slice(1, None, 2), 5)
    (tensor([4, 0, 0]), tensor([1, 3]))
    """
    if isinstance(indices, slice):
        try:
            span = range(size)[indices]
        except (TypeError, ValueError) as error:
            raise GraphError(f"{indices} cannot select graphs: {error}.") from error
        stop = span.stop if span else span.start  # of an empty span, any order
        return torch.arange(span.start, stop, span.step, device="cpu")
    chosen = _flat(indices)
    if chosen.dtype == torch.bool:
        if chosen.numel() != size:
            told = f"the mask has {chosen.numel()} entries"
            raise GraphError(f"{told}; give {size}, one per graph.")
        return chosen.nonzero().flatten()
    chosen = chosen.long()
    if not chosen.numel():
        return chosen
    low, high = (int(value) for value in chosen.aminmax())
    if low < -size or high >= size:
        wrong = low if low < -size else high
        raise GraphError(f"index {wrong} is out of range; there are {size} graphs.")
    return torch.where(chosen < 0, chosen + size, chosen) if low < 0 else chosen


def indices_at(
    indices: Indices, size: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    chosen = as_indices(indices, size)
    host = chosen.cpu()
    there = chosen if chosen.device == device else host.to(device, non_blocking=True)
    return host, there


def _flat(indices: object) -> Tensor:
    # PyTorch would move tensors to the default device, if a user has set one.
    device = indices.device if isinstance(indices, Tensor) else torch.device("cpu")
    try:
        chosen = torch.as_tensor(indices, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(indices).__name__
        raise GraphError(f"this {kind} cannot select graphs; give {KINDS}.") from error
    if chosen.dim() == 0 and chosen.dtype != torch.bool:
        chosen = chosen.reshape(1)
    if not chosen.numel() and chosen.is_floating_point():
        chosen = chosen.long()
    if chosen.dim() != 1 or chosen.is_floating_point() or chosen.is_complex():
        told = f"a {chosen.dtype} tensor of shape {list(chosen.shape)} cannot select"
        raise GraphError(f"{told} graphs; give {KINDS}, with one dimension.")
    return chosen


@dataclass(frozen=True, eq=False, repr=False)
class GraphStore:
    """Many graphs, concatenated into a few tensors.

    `store[indices]` gathers a `GraphBatch` on the store's device, without a loop over
    graphs. All fields are on one device. Every axis may be empty: a store may have no
    graphs, and a graph may have no nodes or no edges. In shapes, g, n and e are the
    numbers of graphs, nodes and edges of the store.

    >>> path = GraphStore(torch.tensor([2]), torch.tensor([2]),
    ...                   torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([7.0]))
    >>> store = GraphStore.concatenate([path, path])
    >>> store
    GraphStore(graphs=2, nodes=4, edges=4, x=None, edge_attr=None, y=[2], device='cpu')
    >>> store[[1, 0]].edge_index
    tensor([[0, 1, 2, 3],
            [1, 0, 3, 2]])
    """

    num_nodes: Tensor
    """[g], int64: number of nodes of each graph."""
    num_edges: Tensor
    """[g], int64: number of directed edges of each graph."""
    edge_index: Tensor
    """[2, e], int64: directed edges, graph after graph; nodes are numbered from 0 in
    each graph. Self loops and parallel edges are allowed."""
    x: Tensor | None = None
    """[n, c]: node features, graph after graph; int64 if categorical. None if nodes
    have no features."""
    edge_attr: Tensor | None = None
    """[e, c]: edge features in the order of `edge_index`. None if edges have none."""
    y: Tensor | None = None
    """Training targets: one row per graph, [g, ...], or, if `node_targets` is True, one
    row per node, [n, ...]. None if there are no targets."""
    node_targets: bool = False
    """Whether `y` has one row per node instead of one row per graph."""

    def __len__(self) -> int:
        return self.num_nodes.numel()

    @property
    def device(self) -> torch.device:
        """The device of all fields."""
        return self.num_nodes.device

    @cached_property
    def node_ptr(self) -> Tensor:
        """[g + 1]: the first node of each graph, and then the total number of nodes."""
        return pointers(self.num_nodes)

    @cached_property
    def edge_ptr(self) -> Tensor:
        """[g + 1]: the first edge of each graph, and then the total number of edges."""
        return pointers(self.num_edges)

    @cached_property
    def counts(self) -> Tensor:
        """[2, g], on the CPU: each graph's number of nodes and number of edges."""
        return torch.stack([self.num_nodes, self.num_edges]).cpu()

    @cached_property
    def _table(self) -> Tensor:
        """[4, g]: each graph's number of nodes and edges, its first node and edge."""
        start = self.node_ptr[:-1], self.edge_ptr[:-1]
        return torch.stack([self.num_nodes, self.num_edges, *start])

    def _chosen(self, indices: Indices) -> tuple[Tensor, Tensor, list[int]]:
        """Return indices of graphs, their columns of `_table`, total [nodes, edges]."""
        host, graph = indices_at(indices, len(self), self.device)
        total = self.counts[:, host].sum(dim=1).tolist()
        return graph, self._table.index_select(1, graph), total

    def __getitem__(self, indices: Indices) -> GraphBatch:
        """Return the selected graphs as one batch, like `subset(indices).union()`.

        Args:
            indices: An int, a slice, a boolean mask, or a list or tensor of ints.
        """
        graph, chosen, (nodes, edges) = self._chosen(indices)
        num_nodes, num_edges, first_node, first_edge = chosen.unbind()
        ptr, edge_ptr = pointers(chosen[:2]).unbind()
        batch, node = ragged_ranges(first_node, num_nodes, nodes, ptr)
        of, edge = ragged_ranges(first_edge, num_edges, edges, edge_ptr)
        return GraphBatch(
            _take(self.x, node),
            self.edge_index.index_select(1, edge) + ptr.index_select(0, of),
            _take(self.edge_attr, edge),
            _take(self.y, node if self.node_targets else graph),
            batch,
            ptr,
        )

    def __iter__(self) -> Iterator[GraphBatch]:
        """Iterate over batches of one graph each; slow, so prefer `store[indices]`."""
        return (self[index] for index in range(len(self)))

    def subset(self, indices: Indices) -> GraphStore:
        """Return a store of the selected graphs, in the order of `indices`.

        Args:
            indices: An int, a slice, a boolean mask, or a list or tensor of ints.
        """
        graph, chosen, (nodes, edges) = self._chosen(indices)
        num_nodes, num_edges, first_node, first_edge = chosen.unbind()
        edge, node = ragged_ranges(first_edge, num_edges, edges)[1], None
        if self.x is not None or self.node_targets:
            node = ragged_ranges(first_node, num_nodes, nodes)[1]
        return GraphStore(
            num_nodes,
            num_edges,
            self.edge_index.index_select(1, edge),
            _take(self.x, node),
            _take(self.edge_attr, edge),
            _take(self.y, node if self.node_targets else graph),
            self.node_targets,
        )

    def union(self) -> GraphBatch:
        """Return all graphs as one batch; features and targets are not copied."""
        nodes = None if self.x is None else self.x.size(0)
        edges, first = self.edge_index.size(1), self.node_ptr[:-1]
        offset = first.repeat_interleave(self.num_edges, output_size=edges)
        return GraphBatch(
            self.x,
            self.edge_index + offset,
            self.edge_attr,
            self.y,
            batch=torch.repeat_interleave(self.num_nodes, output_size=nodes),
            ptr=self.node_ptr,
        )

    def to(self, device: torch.device | str | int) -> GraphStore:
        """Return this store on another device."""
        return moved(self, device)

    def __repr__(self) -> str:
        node_targets = ", node_targets=True" if self.node_targets else ""
        return (
            f"GraphStore(graphs={len(self)}, nodes={int(self.node_ptr[-1])}, "
            f"edges={self.edge_index.size(1)}, x={describe(self.x)}, "
            f"edge_attr={describe(self.edge_attr)}, y={describe(self.y)}"
            f"{node_targets}, device='{self.device}')"
        )

    def check(self) -> GraphStore:
        """Check that all fields are valid and have matching sizes; return the store.

        Raises:
            GraphError: If a field is malformed; the message names the first one.
        """
        check_counts("num_nodes", self.num_nodes)
        check_counts("num_edges", self.num_edges, self.device)
        if len(self) != self.num_edges.numel():
            sizes = f"{len(self)} entries and num_edges {self.num_edges.numel()}"
            raise GraphError(f"num_nodes has {sizes}; give one per graph in both.")
        check_local_edges(self.edge_index, self.num_nodes, self.num_edges)
        nodes, edges = int(self.node_ptr[-1]), int(self.edge_ptr[-1])
        check_rows("x", self.x, nodes, "node", device=self.device)
        check_rows("edge_attr", self.edge_attr, edges, "edge", device=self.device)
        if self.node_targets and self.y is None:
            told = "there is no y, but node_targets=True"
            raise GraphError(f"{told}; give one row for every node.")
        shape = getattr(self.y, "shape", ())
        if not self.node_targets and shape[:1] == (nodes,) != (len(self),):
            raise GraphError(
                f"y has {counted(nodes, 'row')}; give {len(self)}, one for every "
                "graph, or set node_targets for targets of nodes."
            )
        rows, owner = (nodes, "node") if self.node_targets else (len(self), "graph")
        check_rows("y", self.y, rows, owner, columns=False, device=self.device)
        return self

    @staticmethod
    def concatenate(stores: Iterable[GraphStore]) -> GraphStore:
        """Concatenate stores into one store with the graphs of all of them, in order.

        Raises:
            GraphError: If `stores` is empty, or if the stores do not match: a field is
                None in some of them only, or differs in its number of columns, dtype or
                device.
        """
        stores = list(stores)
        if not stores:
            raise GraphError("there is no store to concatenate; give at least one.")
        joined: dict[str, Any] = {}
        for field in fields(GraphStore):
            values = [getattr(store, field.name) for store in stores]
            axis = 1 if field.name == "edge_index" else 0
            check_alike(field.name, values, "store", axis)
            same = not isinstance(values[0], Tensor)
            joined[field.name] = values[0] if same else torch.cat(values, dim=axis)
        return GraphStore(**joined)


def store_graphs(graphs: Sequence[tuple[Tensor, int]]) -> GraphStore:
    edges = [edge_index for edge_index, _ in graphs]
    return GraphStore(
        torch.tensor([num_nodes for _, num_nodes in graphs], dtype=torch.long),
        torch.tensor([ends.size(1) for ends in edges], dtype=torch.long),
        torch.cat([torch.zeros(2, 0, dtype=torch.long), *edges], dim=1),
    )


def _take(value: Tensor | None, index: Tensor | None) -> Tensor | None:
    return None if value is None or index is None else value.index_select(0, index)


def add_reverse_edges(
    edge_index: Tensor, directed: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Insert a reverse edge after each edge; return each new edge's old one, too."""
    has_reverse = edge_index[0] != edge_index[1]
    if directed is not None:
        has_reverse = has_reverse & ~directed
    edge = torch.arange(edge_index.size(1), device=edge_index.device)
    origin = edge.repeat_interleave(1 + has_reverse.long())
    is_reverse = torch.zeros_like(origin, dtype=torch.bool)
    is_reverse[1:] = origin[1:] == origin[:-1]
    ends = edge_index.index_select(1, origin)
    return torch.where(is_reverse, ends.flip(0), ends), origin


def with_reverse_edges(store: GraphStore, directed: Tensor | None = None) -> GraphStore:
    edge_index, origin = add_reverse_edges(store.edge_index, directed)
    graph = _graph_of_edge(store).index_select(0, origin)
    return with_new_edges(store, graph, edge_index, origin)


def with_new_edges(
    store: GraphStore, graph: Tensor, edge_index: Tensor, origin: Tensor | None
) -> GraphStore:
    """Replace edges; edge i, in `graph[i]`, has attributes of old edge `origin[i]`."""
    counts, attributes = counts_of(graph, len(store)), _take(store.edge_attr, origin)
    return replace(store, num_edges=counts, edge_index=edge_index, edge_attr=attributes)


def without_reverse_edges(store: GraphStore) -> GraphStore | None:
    """Keep the first of every two opposite edges; None if an edge has no opposite."""
    edge_index, graph = store.edge_index, _graph_of_edge(store)
    group = _same_edge(store, graph)
    backwards = edge_index[0] > edge_index[1]
    loop = edge_index[0] == edge_index[1]
    key = 2 * group + backwards
    counts = counts_of(key, 2 * (int(group.max()) + 1 if group.numel() else 0))
    one_way = counts[0::2] != counts[1::2]
    if (one_way.index_select(0, group) & ~loop).any():
        return None
    # Pair the i-th forward with the i-th backward edge of a group; the one that comes
    # first in the store remains.
    edge = torch.arange(key.numel(), device=key.device)
    order = torch.argsort(key, stable=True)
    rank = torch.empty_like(edge)
    rank[order] = edge - pointers(counts).index_select(0, key.index_select(0, order))
    pair = pointers(counts[0::2]).index_select(0, group) + rank
    first = edge.new_full((int(counts[0::2].sum()),), key.numel())
    first.scatter_reduce_(0, pair, edge, "amin")
    keep = first.sort().values
    return with_new_edges(store, graph[keep], edge_index.index_select(1, keep), keep)


def is_one_way(store: GraphStore) -> bool:
    """Return whether there are edges, but no reverse edges; self loops do not count."""
    source, target = store.edge_index
    return bool((source != target).any()) and not two_way_edges(store).numel()


def two_way_edges(store: GraphStore) -> Tensor:
    """Return the indices of edges u -> v with u > v that have a reverse edge v -> u."""
    first = store.node_ptr[:-1].index_select(0, _graph_of_edge(store))
    source, target = store.edge_index + first
    size = int(store.node_ptr[-1])
    up, down = source < target, (source > target).nonzero().flatten()
    reverse = target[down] * size + source[down]
    return down[torch.isin(reverse, source[up] * size + target[up])]


def _graph_of_edge(store: GraphStore) -> Tensor:
    graph = torch.arange(len(store), device=store.device)
    return graph.repeat_interleave(store.num_edges)


def _same_edge(store: GraphStore, graph: Tensor) -> Tensor:
    """Group edges by attributes and ends, in either direction; return groups, [e]."""
    ends = store.edge_index + store.node_ptr.index_select(0, graph)
    pair = ends.amin(dim=0) * int(store.node_ptr[-1]) + ends.amax(dim=0)
    group = torch.unique(pair, return_inverse=True)[1]
    columns = () if store.edge_attr is None else store.edge_attr.unbind(dim=1)
    for column in columns:
        known, code = torch.unique(column, return_inverse=True)
        group = torch.unique(group * known.numel() + code, return_inverse=True)[1]
    return group
