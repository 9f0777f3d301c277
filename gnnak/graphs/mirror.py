"""Undirected edges written once, and both directions of them."""

from dataclasses import replace

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of, pointers
from gnnak.graphs.store import GraphStore


def mirror_edges(
    edge_index: Tensor, directed: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Put the mirror of every edge right behind it; a self loop stays alone.

    Args:
        edge_index: Edges, each once, [2, e].
        directed: Edges that stay as they are, bool [e]; none if not given.

    Returns:
        The edges with their mirrors, [2, e'], and the edge each one comes from, [e'].

    >>> mirror_edges(torch.tensor([[0, 2, 1], [1, 2, 2]]))
    (tensor([[0, 1, 2, 1, 2],
            [1, 0, 2, 2, 1]]), tensor([0, 0, 1, 2, 2]))
    """
    twice = edge_index[0] != edge_index[1]
    if directed is not None:
        twice = twice & ~directed
    edge = torch.arange(edge_index.size(1), device=edge_index.device)
    origin = edge.repeat_interleave(1 + twice.long())
    again = torch.zeros_like(origin, dtype=torch.bool)
    again[1:] = origin[1:] == origin[:-1]
    ends = edge_index.index_select(1, origin)
    return torch.where(again, ends.flip(0), ends), origin


def mirrored(store: GraphStore, directed: Tensor | None = None) -> GraphStore:
    """The store with a mirror right behind every edge, attributes included.

    Args:
        store: Graphs with every undirected edge once.
        directed: Edges that stay as they are, bool [e]; none if not given.
    """
    edge_index, origin = mirror_edges(store.edge_index, directed)
    graph = _graph_of_edge(store).index_select(0, origin)
    edge_attr = store.edge_attr
    return replace(
        store,
        num_edges=counts_of(graph, len(store)),
        edge_index=edge_index,
        edge_attr=None if edge_attr is None else edge_attr.index_select(0, origin),
    )


def unmirrored(store: GraphStore) -> GraphStore | None:
    """The store with every undirected edge once, or None if an edge has no mirror.

    The mirror of an edge goes the other way and has the same attributes; of the two,
    the one that stands first is kept. `mirrored` is the inverse, up to the order of
    edges; exactly, where every mirror stands right behind its edge.
    """
    edge_index, graph = store.edge_index, _graph_of_edge(store)
    group = _same_edge(store, graph)
    back = edge_index[0] > edge_index[1]
    loop = edge_index[0] == edge_index[1]
    key = 2 * group + back
    counts = counts_of(key, 2 * (int(group.max()) + 1 if group.numel() else 0))
    one_way = counts[0::2] != counts[1::2]
    if (one_way.index_select(0, group) & ~loop).any():
        return None
    # The i-th edge of a group and the i-th of its mirrors are a pair: keep the first.
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
    """[e]: one number for all edges with the same two ends and attributes."""
    ends = store.edge_index + store.node_ptr.index_select(0, graph)
    size = int(store.node_ptr[-1])
    pair = ends.amin(dim=0) * size + ends.amax(dim=0)
    group = torch.unique(pair, return_inverse=True)[1]
    columns = () if store.edge_attr is None else store.edge_attr.unbind(dim=1)
    for column in columns:
        known, code = torch.unique(column, return_inverse=True)
        group = torch.unique(group * known.numel() + code, return_inverse=True)[1]
    return group
