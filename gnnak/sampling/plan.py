"""What a batch's sampling needs and no draw changes: computed once, and kept."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.graphs.components import components
from gnnak.graphs.ragged import counts_of
from gnnak.sampling.near import Near, near_places
from gnnak.sampling.pairs import PairDistances, pair_distances
from gnnak.subgraphs.groups import Groups, group
from gnnak.subgraphs.rooted import RootedSubgraphs


@dataclass(frozen=True, eq=False)
class Plan:
    """The fixed part of drawing roots for one batch of graphs."""

    component: Tensor
    """[n]: the component of each node; each is covered for itself."""
    num_components: int
    """Number of components."""
    by_component: Groups
    """Nodes grouped by their component."""
    largest: int
    """No component has more nodes than this."""
    held: Tensor
    """[n]: how many of all subgraphs hold each node."""
    near: Near
    """The neighbours of each node."""
    distances: PairDistances | None = None
    """Distances between nodes, where the strategy needs them."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return self.component.numel()


def make_plan(
    subgraphs: RootedSubgraphs, edge_index: Tensor, num_nodes: int, distances: bool
) -> Plan:
    """Compute the plan of a batch, with the distances between nodes if asked for."""
    component, count = components(edge_index, num_nodes)
    groups = group(component, count)
    return Plan(
        component,
        count,
        groups,
        int(groups.ptr.diff().max()) if count else 0,
        counts_of(subgraphs.node, num_nodes),
        near_places(edge_index, component, groups),
        pair_distances(edge_index, component, count) if distances else None,
    )


def best_of_each(score: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """The entry with the largest score of every group, [num_groups].

    Args:
        score: Scores [s], distinct inside a group; -inf for entries not to be chosen.
        group: The group of each entry, [s].
        num_groups: Number of groups.

    Returns:
        The index of the best entry, or -1 where a group has none to choose.
    """
    lowest = score.new_full((num_groups,), -torch.inf)
    best = lowest.scatter_reduce(0, group, score, "amax")
    is_best = (score == best.index_select(0, group)) & (score > -torch.inf)
    index = torch.arange(score.numel(), device=score.device)
    chosen = group.new_full((num_groups,), -1)
    return chosen.scatter_reduce(0, group, index.masked_fill(~is_best, -1), "amax")
