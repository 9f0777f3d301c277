"""Distances between all nodes of each component, for farthest sampling."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.errors import CoverageError
from gnnak.graphs.adjacency import incoming
from gnnak.graphs.components import components
from gnnak.graphs.ragged import counts_of, pointers
from gnnak.subgraphs.reach import reach

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
        at = self.start.index_select(0, first) + self.place.index_select(0, second)
        return self.hop.index_select(0, at)


def pair_distances(edge_index: Tensor, num_nodes: int) -> PairDistances:
    """Compute the distances between all nodes that a path joins.

    Raises:
        CoverageError: If there are more than `MAX_PAIRS` such pairs.
    """
    component, count = components(edge_index, num_nodes)
    sizes = counts_of(component, count)
    pairs = int((sizes * sizes).sum())
    if pairs > MAX_PAIRS:
        raise CoverageError(
            f"farthest sampling needs the distances of {pairs:,} pairs of nodes, more "
            f"than {MAX_PAIRS:,}; use 'random' or 'min-set-cover', or smaller graphs."
        )
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    nodes = torch.arange(num_nodes, device=edge_index.device)
    _, hop = reach(nodes, incoming(both, num_nodes), num_nodes)
    order = torch.argsort(component, stable=True)
    place = torch.empty_like(order)
    first = pointers(sizes).index_select(0, component.index_select(0, order))
    place[order] = nodes - first
    start = pointers(sizes.index_select(0, component))[:-1]
    return PairDistances(hop.int(), start, place)
