"""Edges across rooted subgraphs: between the copies of one node at adjacent roots."""

from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.errors import SubgraphError
from gnnak.graphs.adjacency import incoming
from gnnak.graphs.ragged import counts_of, ragged_ranges
from gnnak.subgraphs.induce import find_sorted
from gnnak.subgraphs.rooted import RootedSubgraphs


class AcrossEdges(NamedTuple):
    """Edges between copies of one node in different rooted subgraphs, a of them."""

    edge_index: Tensor
    """[2, a], in 0..m-1: source and target node copy of each edge."""
    edge: Tensor
    """[a], in 0..e-1: the edge of the graph that joins the two roots."""


def across_edges(subgraphs: RootedSubgraphs, edge_index: Tensor) -> AcrossEdges:
    r"""Find all edges across rooted subgraphs; cached after first use.

    For every edge $u' \to u$ of the graph, and every node $v$ that is both in the
    subgraph rooted at $u'$ and in the subgraph rooted at $u$, there is an edge from the
    copy of $v$ in the first subgraph to the copy of $v$ in the second: $(u', v) \to (u,
    v)$. Roots that SubgraphDrop has dropped have no edges. The edges are sorted by
    target.

    Args:
        subgraphs: The rooted subgraphs.
        edge_index: Directed edges of the graph, [2, e].

    >>> from gnnak.subgraphs import whole_graphs
    >>> pair = torch.tensor([[0, 1], [1, 0]])
    >>> across_edges(whole_graphs(pair, 2), pair)
    AcrossEdges(edge_index=tensor([[2, 3, 0, 1],
            [0, 1, 2, 3]]), edge=tensor([1, 1, 0, 0]))
    """
    return subgraphs.once(AcrossEdges, lambda: _find(subgraphs, edge_index), False)


def across_whole(subgraphs: RootedSubgraphs, edge_index: Tensor) -> AcrossEdges:
    r"""Find all edges across whole graphs, without synchronising with a GPU.

    In whole graphs, the pair $(u, v)$ of root and node has a transposed pair $(v, u)$,
    and transposing both ends of the edge $(v, u') \to (v, u)$ inside the subgraph of
    $v$ gives the edge $(u', v) \to (u, v)$ across subgraphs. The result has the edges
    of `across_edges` in another order. Padding rows are allowed. Cached after first
    use.

    Args:
        subgraphs: The result of `WholeGraphs`; checked only on a CPU.
        edge_index: Directed edges of the graph, [2, e].
    """
    return subgraphs.once(AcrossEdges, lambda: _transpose(subgraphs, edge_index), True)


def _transpose(subgraphs: RootedSubgraphs, edge_index: Tensor) -> AcrossEdges:
    size, device = subgraphs.known_num_nodes, subgraphs.device
    number = torch.arange(subgraphs.num_subgraphs, device=device)
    rooted_at = number.new_zeros(size).index_copy(0, subgraphs.root, number)
    root = subgraphs.root.index_select(0, subgraphs.subgraph)
    key = subgraphs.subgraph * size + subgraphs.node
    query = rooted_at.index_select(0, subgraphs.node) * size + root
    # Padding rows come last and have larger keys than all other rows.
    swapped, found = find_sorted(key, query)
    if subgraphs.real is not None:
        row = torch.arange(subgraphs.num_copies, device=device)
        swapped = torch.where(row < subgraphs.real.copies, swapped, row)
    elif device.type == "cpu":
        in_degree = counts_of(edge_index[1], size)
        wanted = int(in_degree.index_select(0, root).sum())
        if not bool(found.all()) or wanted != subgraphs.num_edge_copies:
            raise SubgraphError(
                "this layer was built for whole graphs, but got other subgraphs; give "
                "the result of gnnak.WholeGraphs, or build the layer with whole=False."
            )
    return AcrossEdges(swapped[subgraphs.edge_index], subgraphs.edge)


def _find(subgraphs: RootedSubgraphs, edge_index: Tensor) -> AcrossEdges:
    size = subgraphs.known_num_nodes
    neighbors = incoming(edge_index, size)
    root = subgraphs.root.index_select(0, subgraphs.subgraph)
    start, count = neighbors.rows(root)
    target, entry = ragged_ranges(start, count)
    rooted_at = torch.full((size,), -1, dtype=torch.long, device=subgraphs.device)
    number = torch.arange(subgraphs.num_subgraphs, device=subgraphs.device)
    rooted_at = rooted_at.index_copy(0, subgraphs.root, number)
    other = rooted_at.index_select(0, neighbors.node.index_select(0, entry))
    node = subgraphs.node.index_select(0, target)
    key = subgraphs.subgraph * size + subgraphs.node
    source, found = find_sorted(key, other * size + node)
    kept = (found & (other >= 0)).nonzero().flatten()
    ends = torch.stack([source, target]).index_select(1, kept)
    edge = neighbors.edge.index_select(0, entry.index_select(0, kept))
    return AcrossEdges(ends, edge)
