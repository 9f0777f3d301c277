"""Add or remove the reverse edge of every undirected edge."""

from dataclasses import replace

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of, pointers
from gnnak.graphs.store import GraphStore


def add_reverse_edges(
    edge_index: Tensor, directed: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Insert the reverse edge directly after every edge, except after self loops.

    `directed`, [e], masks further edges that get no reverse edge. Returns the edges,
    [2, e'], and the position in `edge_index` of the edge that each equals or reverses,
    [e'].

    >>> add_reverse_edges(torch.tensor([[0, 2, 1], [1, 2, 2]]))
    (tensor([[0, 1, 2, 1, 2],
            [1, 0, 2, 2, 1]]), tensor([0, 0, 1, 2, 2]))
    """
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
    """Return the store with the edges of `add_reverse_edges`, and their attributes."""
    edge_index, origin = add_reverse_edges(store.edge_index, directed)
    graph = _graph_of_edge(store).index_select(0, origin)
    edge_attr = store.edge_attr
    return replace(
        store,
        num_edges=counts_of(graph, len(store)),
        edge_index=edge_index,
        edge_attr=None if edge_attr is None else edge_attr.index_select(0, origin),
    )


def without_reverse_edges(store: GraphStore) -> GraphStore | None:
    """Return the store with only one direction of every undirected edge.

    Two edges are the reverse of each other if they join the same nodes in opposite
    directions with equal attributes; the first of the two remains. Self loops remain.
    `with_reverse_edges` is the inverse, up to the order of edges. Returns None if an
    edge other than a self loop has no reverse edge.
    """
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
    edge_attr = store.edge_attr
    return replace(
        store,
        num_edges=counts_of(graph.index_select(0, keep), len(store)),
        edge_index=edge_index.index_select(1, keep),
        edge_attr=None if edge_attr is None else edge_attr.index_select(0, keep),
    )


def _graph_of_edge(store: GraphStore) -> Tensor:
    graph = torch.arange(len(store), device=store.device)
    return graph.repeat_interleave(store.num_edges)


def _same_edge(store: GraphStore, graph: Tensor) -> Tensor:
    """Return a number for each edge, such that equal edges get the same number.

    Edges are equal if they have the same attributes and join the same two nodes, in
    either direction. `graph` is the index of each edge's graph.
    """
    ends = store.edge_index + store.node_ptr.index_select(0, graph)
    size = int(store.node_ptr[-1])
    pair = ends.amin(dim=0) * size + ends.amax(dim=0)
    group = torch.unique(pair, return_inverse=True)[1]
    columns = () if store.edge_attr is None else store.edge_attr.unbind(dim=1)
    for column in columns:
        known, code = torch.unique(column, return_inverse=True)
        group = torch.unique(group * known.numel() + code, return_inverse=True)[1]
    return group
