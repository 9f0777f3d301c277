"""The sampling plan: what SubgraphDrop computes for a batch before it samples."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnnak.errors import CoverageError
from gnnak.graphs.adjacency import Neighbors, components, incoming, joined_nodes
from gnnak.graphs.ragged import chunk_cuts, counts_of, pointers, ragged_ranges
from gnnak.subgraphs.groups import Groups, group
from gnnak.subgraphs.rooted import RootedSubgraphs


@dataclass(frozen=True, eq=False)
class Near:
    """The distinct neighbours of each node, ignoring edge directions, in CSR form.

    The neighbours of node v are `place[start[v] : start[v] + count[v]]`. The place of a
    neighbour is its position (0, 1, ...) among the nodes of its connected component.
    """

    place: Tensor
    """int32: each node's neighbours, ascending, as positions in the component."""
    start: Tensor
    """[n]: the index in the tensor `place` at which the neighbours of a node begin."""
    count: Tensor
    """[n]: number of neighbours; a node with a self loop is its own neighbour."""

    def nodes(self, component: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
        """Return row pointer, [n + 1], and neighbours as node numbers, in CSR form."""
        assert groups.order is not None, "nodes are grouped by a sort"
        of, entry = ragged_ranges(self.start, self.count)
        first = groups.ptr.index_select(0, component.index_select(0, of))
        place = first + self.place.index_select(0, entry)
        return pointers(self.count), groups.order.index_select(0, place)


def places(component: Tensor, groups: Groups) -> Tensor:
    """Return the position of each node among the nodes of its component, [n]."""
    assert groups.order is not None, "nodes are grouped by a sort"
    place = torch.empty_like(groups.order)
    place[groups.order] = torch.arange(component.numel(), device=component.device)
    return place - groups.ptr.index_select(0, component)


def near_places(edge_index: Tensor, component: Tensor, groups: Groups) -> Near:
    num_nodes, place = component.numel(), places(component, groups)
    node, other = joined_nodes(edge_index, num_nodes)
    count = counts_of(node, num_nodes)
    return Near(place.index_select(0, other).int(), pointers(count)[:-1], count)


MAX_PAIRS = 1 << 28
"""Distances are computed for at most this many pairs of nodes: 1 GiB of int32."""

CHUNK = 1 << 21
"""The search follows about this many edges at a time, to bound the temporary memory."""


@dataclass(frozen=True, eq=False)
class PairDistances:
    """Distances of nodes u, v in a connected component: `hop[start[u] + place[v]]`."""

    hop: Tensor
    """[sum of squared component sizes], int32: all distances within each component."""
    start: Tensor
    """[n]: where the distances of each node start in `hop`."""
    place: Tensor
    """[n]: position of each node among the nodes of its component."""

    def between(self, first: Tensor, second: Tensor) -> Tensor:
        """Return, for each i, the distance between nodes `first[i]` and `second[i]`."""
        return self.hop.index_select(0, self.at(first, second))

    def at(self, first: Tensor, second: Tensor) -> Tensor:
        return self.start.index_select(0, first) + self.place.index_select(0, second)


def pair_distances(
    edge_index: Tensor, component: Tensor, groups: Groups
) -> PairDistances:
    sizes, num_nodes = groups.ptr.diff(), component.numel()
    pairs = int((sizes * sizes).sum())
    if pairs > MAX_PAIRS:
        raise CoverageError(
            f"farthest sampling needs the distances of {pairs:,} pairs of nodes, more "
            f"than {MAX_PAIRS:,}; use 'random' or 'min-set-cover', or smaller batches."
        )
    place = places(component, groups)
    start = pointers(sizes.index_select(0, component))[:-1]
    hop = torch.full((pairs,), -1, dtype=torch.int32, device=edge_index.device)
    table = PairDistances(hop, start, place)
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    _search(table, incoming(both, num_nodes))
    return table


def _search(table: PairDistances, neighbors: Neighbors) -> None:
    size = neighbors.num_nodes
    start = frontier = torch.arange(size, device=table.hop.device)
    table.hop[table.at(start, frontier)] = 0
    for distance in range(1, size):
        cuts = chunk_cuts(neighbors.rows(frontier)[1], CHUNK)
        parts = []
        both = (torch.tensor_split(pairs, cuts) for pairs in (start, frontier))
        for first, last in zip(*both, strict=True):
            # Follow all edges of the frontier, to pairs that have no distance yet.
            row, entry = ragged_ranges(*neighbors.rows(last))
            reached, reached_from = neighbors.node[entry], first[row]
            new = (table.between(reached_from, reached) < 0).nonzero().flatten()
            key = torch.unique(reached_from[new] * size + reached[new])
            table.hop[table.at(key // size, key % size)] = distance
            parts.append(key)
        key = torch.cat(parts) if len(parts) > 1 else parts[0]
        if not key.numel():
            break
        start, frontier = key // size, key % size


LARGE = 256
"""A connected component with more nodes than this is large."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What SubgraphDrop computes for a batch before it samples; it is not random."""

    component: Tensor
    """[n]: the connected component of each node. Components are sampled separately."""
    num_components: int
    by_component: Groups
    """The nodes grouped by connected component."""
    largest: int
    """An upper bound on the number of nodes of a connected component."""
    held: Tensor
    """[n]: number of subgraphs that contain each node, before any are dropped."""
    near: Near
    distances: PairDistances | None = None
    """Distances between nodes. None for strategies other than "farthest", and if
    `is_large`: distances are then computed while subgraphs are sampled."""

    def is_large(self, subgraphs: RootedSubgraphs) -> bool:
        """Return whether a component is large and no subgraph is in two components."""
        if self.largest <= LARGE:
            return False
        of_root = self.component.index_select(0, subgraphs.root)
        of_copy = of_root.index_select(0, subgraphs.subgraph)
        return torch.equal(self.component.index_select(0, subgraphs.node), of_copy)

    @property
    def num_nodes(self) -> int:
        return self.component.numel()


def make_plan(
    subgraphs: RootedSubgraphs, edge_index: Tensor, num_nodes: int, distances: bool
) -> Plan:
    """Compute a plan; add distances if `distances` is True and `is_large` is False."""
    component, count = components(edge_index, num_nodes)
    groups = group(component, count)
    largest = int(groups.ptr.diff().max()) if count else 0
    held = counts_of(subgraphs.node, num_nodes)
    near = near_places(edge_index, component, groups)
    plan = Plan(component, count, groups, largest, held, near)
    if not distances or plan.is_large(subgraphs):
        return plan
    return replace(plan, distances=pair_distances(edge_index, component, groups))
