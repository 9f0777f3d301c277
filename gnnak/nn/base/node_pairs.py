"""`NodePairs`: one row for each pair of nodes of a graph, for all graphs of a batch."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of, pointers


@dataclass(frozen=True)
class NodePairs:
    """The rows of a matrix [p, w] with one state for each pair of nodes of one graph.

    A graph with k nodes has k * k rows, one for every ordered pair (i, j) of its nodes,
    also for i = j. They are consecutive: the pairs (0, 0), (0, 1), ..., (0, k - 1),
    (1, 0) and so on. Graphs are sorted by their number of nodes, so that the rows of
    all graphs of one size are consecutive, too. No row is padding.
    """

    sizes: list[tuple[int, int]]
    """For each number of nodes that occurs, in ascending order: this number, and the
    number of graphs that have so many nodes. May be empty."""
    nodes: Tensor
    """[g]: number of nodes of each graph that is not empty; graphs sorted by size."""
    start: Tensor
    """[g]: first row of each graph that is not empty; graphs sorted by size."""
    first: Tensor
    """[n]: for each node i of the batch, the first row with a pair (i, j)."""
    position: Tensor
    """[n]: index of each node within its graph."""
    size: Tensor
    """[n]: number of nodes of each node's graph."""
    rank: Tensor
    """[n]: index of each node if nodes are sorted by `first`."""

    @property
    def num_pairs(self) -> int:
        """Number of rows, p."""
        return sum(size * size * count for size, count in self.sizes)

    @property
    def diagonal(self) -> Tensor:
        """The row of the pair (i, i) for each node i, [n]."""
        return self.first + self.position

    def split(self, x: Tensor) -> list[Tensor]:
        """Split rows by the size of the graph.

        Args:
            x: One state per pair, [p, w].

        Returns:
            For each entry (k, count) of `sizes`, a view of shape [count, k, k, w].
        """
        parts = x.split([size * size * count for size, count in self.sizes])
        return [
            part.view(count, size, size, x.size(1))
            for part, (size, count) in zip(parts, self.sizes, strict=True)
        ]


def find_pairs(batch: Tensor) -> NodePairs:
    """Find the pairs of nodes of all graphs in a batch.

    The host synchronises with the device once, to read the sizes of the graphs.

    Args:
        batch: Index of the graph that each node is in, [n], in any order. Graphs
            without nodes have no pairs.
    """
    ordered, order = batch.sort(stable=True)
    graph = torch.zeros_like(batch)
    graph[1:] = (ordered[1:] != ordered[:-1]).cumsum(0)
    counts = counts_of(graph, batch.numel())
    on_host = counts.cpu()
    nodes, by_size = on_host[on_host > 0].sort(stable=True)
    found, repeats = nodes.unique_consecutive(return_counts=True)
    sizes = list(zip(found.tolist(), repeats.tolist(), strict=True))
    # By graph, sorted by size: nodes, first row, and number of nodes before the graph.
    sorted_ = torch.stack([nodes, *(pointers(c)[:-1] for c in (nodes * nodes, nodes))])
    by_graph = torch.empty_like(sorted_)
    by_graph[:, by_size] = sorted_
    both = torch.stack([sorted_, by_graph])
    sorted_, by_graph = both.to(batch.device, non_blocking=True)
    # One column per node, sorted by graph.
    size, start, before = by_graph.index_select(1, graph)
    position = torch.arange(batch.numel(), device=batch.device)
    position -= pointers(counts).index_select(0, graph)
    columns = torch.stack([start + position * size, position, size, before + position])
    of_node = torch.empty_like(columns).index_copy_(1, order, columns)
    return NodePairs(sizes, sorted_[0], sorted_[1], *of_node)


def pair_states(
    x: Tensor, edge_index: Tensor, edge_attr: Tensor, pairs: NodePairs
) -> Tensor:
    """Build the states of all pairs of nodes, [p, w]: node states and edge states.

    The pair (i, i) has the state of node i. The pair (i, j) has the state of the edge
    j -> i, or zero without such an edge.

    Args:
        x: Node states, [n, w].
        edge_index: Directed edges, [2, e].
        edge_attr: Edge states, [e, w].
        pairs: The pairs of nodes.
    """
    # Entry (i, j) is the edge j -> i, so that entry (i, k) of a matrix product sums
    # over the paths k -> j -> i.
    source, target = edge_index
    edges = pairs.first.index_select(0, target) + pairs.position.index_select(0, source)
    states = x.new_zeros(pairs.num_pairs, x.size(1))
    states.index_add_(0, pairs.diagonal, x)
    return states.index_add_(0, edges, edge_attr.to(x.dtype))


def multiply_pairs(left: Tensor, right: Tensor, pairs: NodePairs) -> Tensor:
    r"""Multiply two matrices per graph and channel: $P_{ik} = \sum_j L_{ij} R_{jk}$.

    Args:
        left: The entries $L_{ij}$ of the left matrices, [p, w].
        right: The entries $R_{jk}$ of the right matrices, [p, w].
        pairs: The pairs of nodes of each graph, which index the matrices.

    Returns:
        The entries of the products, [p, w].
    """
    # The first item has no rows; for a batch without nodes, it alone is returned.
    products = [left[:0] * right[:0]]
    for one, two in zip(pairs.split(left), pairs.split(right), strict=True):
        product = one.permute(0, 3, 1, 2) @ two.permute(0, 3, 1, 2)
        products.append(product.permute(0, 2, 3, 1).reshape(-1, left.size(1)))
    return torch.cat(products)
