"""Distances between all nodes of each component, for farthest sampling."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.errors import CoverageError
from gnnak.graphs.adjacency import Neighbors, incoming
from gnnak.graphs.ragged import counts_of, pointers, ragged_ranges

MAX_PAIRS = 1 << 28
"""Most pairs that are kept: one gigabyte of them."""


@dataclass(frozen=True, eq=False)
class PairDistances:
    """Shortest-path lengths, component by component; edges count in both directions."""

    hop: Tensor
    """[sum of squared component sizes], int32: row after row, one a node."""
    start: Tensor
    """[n]: where the row of each node starts."""
    place: Tensor
    """[n]: the place of each node in the rows of its component."""

    def between(self, first: Tensor, second: Tensor) -> Tensor:
        """Lengths between nodes of one component each, shaped like the arguments."""
        return self.hop.index_select(0, self.at(first, second))

    def at(self, first: Tensor, second: Tensor) -> Tensor:
        """Where the lengths between nodes of one component each stand in `hop`."""
        return self.start.index_select(0, first) + self.place.index_select(0, second)


def pair_distances(edge_index: Tensor, component: Tensor, count: int) -> PairDistances:
    """Compute the distances between all nodes that a path joins.

    Breadth-first from all nodes at once, straight into the table of the result.

    Args:
        edge_index: Directed edges, [2, e]; they count in both directions.
        component: The component of each node, [n].
        count: Number of components.

    Raises:
        CoverageError: If there are more than `MAX_PAIRS` such pairs.
    """
    num_nodes = component.numel()
    sizes = counts_of(component, count)
    pairs = int((sizes * sizes).sum())
    if pairs > MAX_PAIRS:
        raise CoverageError(
            f"farthest sampling needs the distances of {pairs:,} pairs of nodes, more "
            f"than {MAX_PAIRS:,}; use 'random' or 'min-set-cover', or smaller graphs."
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
    _spread(table, incoming(both, num_nodes))
    return table


def _spread(table: PairDistances, neighbors: Neighbors) -> None:
    """Write all distances into a table that has none yet."""
    size = neighbors.num_nodes
    home = here = torch.arange(size, device=table.hop.device)
    table.hop[table.at(home, here)] = 0
    for distance in range(1, size):
        row, entry = ragged_ranges(*neighbors.rows(here))
        there, since = neighbors.node[entry], home[row]
        new = (table.between(since, there) < 0).nonzero().flatten()
        if not new.numel():
            break
        key = torch.unique(since[new] * size + there[new])
        home, here = key // size, key % size
        table.hop[table.at(home, here)] = distance
