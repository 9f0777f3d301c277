"""The sampling plan: what SubgraphDrop computes for a batch before it samples."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnnak.graphs.components import components
from gnnak.graphs.ragged import counts_of
from gnnak.sampling.near import Near, near_places
from gnnak.sampling.pairs import PairDistances, pair_distances
from gnnak.subgraphs.groups import Groups, group
from gnnak.subgraphs.rooted import RootedSubgraphs

LARGE = 256
"""A connected component with more nodes than this is large."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What SubgraphDrop computes for a batch before it samples subgraphs.

    The plan does not depend on randomness, so it can be reused for any number of random
    samples from the same batch. In shapes, n is the number of nodes of the batch.
    """

    component: Tensor
    """[n]: the connected component of each node. Subgraphs are sampled separately in
    each component."""
    num_components: int
    """Number of connected components."""
    by_component: Groups
    """The nodes grouped by connected component, in CSR form."""
    largest: int
    """An upper bound on the number of nodes of a connected component."""
    held: Tensor
    """[n]: number of rooted subgraphs that contain each node, before any subgraph is
    dropped."""
    near: Near
    """The neighbours of each node; a neighbour is given by its position among the nodes
    of its connected component."""
    distances: PairDistances | None = None
    """Shortest-path distances between nodes. None if the strategy is not "farthest", or
    if `is_large`: then the distances are searched for while subgraphs are sampled."""

    def is_large(self, subgraphs: RootedSubgraphs) -> bool:
        """Return whether subgraphs are sampled with a heap; see `gnnak.sampling.heap`.

        They are if a connected component has more than `LARGE` nodes, and all nodes of
        a subgraph are in the connected component of its root.

        Args:
            subgraphs: The rooted subgraphs of the batch, one for every node.
        """
        return self.largest > LARGE and inside_components(subgraphs, self.component)

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return self.component.numel()


def make_plan(
    subgraphs: RootedSubgraphs, edge_index: Tensor, num_nodes: int, distances: bool
) -> Plan:
    """Compute the sampling plan of a batch: what SubgraphDrop needs before it samples.

    Args:
        subgraphs: A rooted subgraph for every node.
        edge_index: The batch's edges, [2, e].
        num_nodes: Number of nodes, n.
        distances: True to compute the distances between nodes too; only farthest
            sampling needs them. They are not computed for large components.
    """
    component, count = components(edge_index, num_nodes)
    groups = group(component, count)
    plan = Plan(
        component,
        count,
        groups,
        int(groups.ptr.diff().max()) if count else 0,
        counts_of(subgraphs.node, num_nodes),
        near_places(edge_index, component, groups),
    )
    if not distances or plan.is_large(subgraphs):
        return plan
    return replace(plan, distances=pair_distances(edge_index, component, count))


def inside_components(subgraphs: RootedSubgraphs, component: Tensor) -> bool:
    """Return whether all nodes of each subgraph are in the component of its root.

    Args:
        subgraphs: The rooted subgraphs.
        component: The connected component of each node, [n].
    """
    of_root = component.index_select(0, subgraphs.root)
    of_copy = of_root.index_select(0, subgraphs.subgraph)
    return torch.equal(component.index_select(0, subgraphs.node), of_copy)


def best_of_each(score: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """Return, for each group, the index of the entry with the largest score.

    Args:
        score: Score of each entry, [s]; the scores within a group must be distinct. A
            score of -inf excludes an entry.
        group: The group of each entry, [s].
        num_groups: Number of groups.

    Returns:
        The index of one entry per group, [num_groups]; -1 for a group whose entries are
        all excluded.
    """
    lowest = score.new_full((num_groups,), -torch.inf)
    best = lowest.scatter_reduce(0, group, score, "amax")
    is_best = (score == best.index_select(0, group)) & (score > -torch.inf)
    index = torch.arange(score.numel(), device=score.device)
    chosen = group.new_full((num_groups,), -1)
    return chosen.scatter_reduce(0, group, index.masked_fill(~is_best, -1), "amax")
