"""Distances between all nodes of each connected component, for farthest sampling."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.errors import CoverageError
from gnnak.graphs.adjacency import Neighbors, incoming
from gnnak.graphs.ragged import chunk_cuts, counts_of, pointers, ragged_ranges

MAX_PAIRS = 1 << 28
"""Maximal number of node pairs whose distances are computed: 1 GiB of int32."""

CHUNK = 1 << 21
"""Approximate number of edges that are followed at a time. This bounds the temporary
memory."""


@dataclass(frozen=True, eq=False)
class PairDistances:
    """Shortest-path lengths between all nodes of the same connected component.

    Edge directions are ignored. The distance from node u to node v of the same
    component is `hop[start[u] + place[v]]`.
    """

    hop: Tensor
    """[sum of squared component sizes], int32: for each node, the distances to all
    nodes of its connected component, next to each other."""
    start: Tensor
    """[n]: position in `hop` where the distances of each node start."""
    place: Tensor
    """[n]: position of each node among the nodes of its connected component."""

    def between(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the distances between pairs of nodes.

        Args:
            first: The first node of each of q pairs, [q].
            second: The second node of each pair, [q]; in the same connected component
                as the first.

        Returns:
            Distances, [q].
        """
        return self.hop.index_select(0, self.at(first, second))

    def at(self, first: Tensor, second: Tensor) -> Tensor:
        """Return where the distances between pairs of nodes are stored.

        Args:
            first: The first node of each of q pairs, [q].
            second: The second node of each pair, [q]; in the same connected component
                as the first.

        Returns:
            For each pair, the position of its distance in the tensor `hop`, [q].
        """
        return self.start.index_select(0, first) + self.place.index_select(0, second)


def pair_distances(edge_index: Tensor, component: Tensor, count: int) -> PairDistances:
    """Compute the distances between all nodes of each connected component.

    Runs breadth-first searches from all nodes at once.

    Args:
        edge_index: Directed edges, [2, e]; their direction is ignored.
        component: The connected component of each node, [n].
        count: Number of components.

    Raises:
        CoverageError: If more than `MAX_PAIRS` distances would have to be stored.
    """
    num_nodes = component.numel()
    sizes = counts_of(component, count)
    pairs = int((sizes * sizes).sum())
    if pairs > MAX_PAIRS:
        raise CoverageError(
            f"farthest sampling needs the distances of {pairs:,} pairs of nodes, more "
            f"than {MAX_PAIRS:,}; use 'random' or 'min-set-cover', or smaller batches."
        )
    nodes = torch.arange(num_nodes, device=edge_index.device)
    order = torch.argsort(component, stable=True)
    place = torch.empty_like(order)
    first = pointers(sizes).index_select(0, component.index_select(0, order))
    place[order] = nodes - first
    start = pointers(sizes.index_select(0, component))[:-1]
    hop = torch.full((pairs,), -1, dtype=torch.int32, device=edge_index.device)
    table = PairDistances(hop, start, place)
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    _search(table, incoming(both, num_nodes))
    return table


def _search(table: PairDistances, neighbors: Neighbors) -> None:
    """Write all distances into `table.hop`, by breadth-first searches from all nodes.

    Entries of `table.hop` must be -1 at the start. `neighbors` has the edges in both
    directions.
    """
    size = neighbors.num_nodes
    start = frontier = torch.arange(size, device=table.hop.device)
    table.hop[table.at(start, frontier)] = 0
    for distance in range(1, size):
        cuts = chunk_cuts(neighbors.rows(frontier)[1], CHUNK)
        parts = []
        for ends in zip(
            torch.tensor_split(start, cuts),
            torch.tensor_split(frontier, cuts),
            strict=True,
        ):
            key = _next_pairs(*ends, table, neighbors)
            table.hop[table.at(key // size, key % size)] = distance
            parts.append(key)
        key = torch.cat(parts) if len(parts) > 1 else parts[0]
        if not key.numel():
            break
        start, frontier = key // size, key % size


def _next_pairs(
    start: Tensor, frontier: Tensor, table: PairDistances, neighbors: Neighbors
) -> Tensor:
    """Follow all edges of a frontier; return the pairs that have no distance yet.

    Args:
        start: The start node of each pair of the frontier.
        frontier: The node that was reached from it.
        table: The distances found so far; -1 where there is none.
        neighbors: The edges, in both directions.

    Returns:
        The new pairs of a start node u and a node v reached, as sorted integers
        `u * n + v` without repeats, where n is the number of nodes.
    """
    row, entry = ragged_ranges(*neighbors.rows(frontier))
    reached, reached_from = neighbors.node[entry], start[row]
    new = (table.between(reached_from, reached) < 0).nonzero().flatten()
    return torch.unique(reached_from[new] * neighbors.num_nodes + reached[new])
