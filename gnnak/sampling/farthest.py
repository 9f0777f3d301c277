"""Farthest sampling: always sample the root farthest from the roots sampled so far."""

import numpy as np
import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.sampling.greedy import Ties, sample_greedily
from gnnak.sampling.heap import Array, Coverage, rows, sample_one_by_one
from gnnak.sampling.plan import Plan
from gnnak.sampling.random_roots import random_order
from gnnak.subgraphs.rooted import RootedSubgraphs


@operation
def farthest_roots(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: torch.Generator | None = None,
    ties: Ties = "random",
) -> Tensor:
    """Sample a random root, then always the root farthest from the sampled roots.

    Farthest means that the shortest-path distance to the nearest sampled root is
    largest; edge directions are ignored. Every connected component is sampled
    separately, until all of its nodes are covered. A node is covered if it is in at
    least `min_coverage` sampled subgraphs, or if all subgraphs that contain the node
    are sampled.

    Args:
        subgraphs: The s rooted subgraphs.
        plan: The sampling plan (what SubgraphDrop precomputes for this batch); it must
            contain distances, unless a connected component is large.
        min_coverage: R, the number of sampled subgraphs that must contain each node.
        generator: Source of randomness; PyTorch's default generator if None.
        ties: Which of several subgraphs with equal scores is sampled.

    Returns:
        Boolean mask of the sampled subgraphs, [s].
    """
    rank = random_order(subgraphs, generator)
    if plan.distances is None:
        coverage = Coverage(subgraphs, plan, min_coverage)
        scores = _Nearest(subgraphs, plan)
        return sample_one_by_one(subgraphs, plan, coverage, scores, rank, ties)
    distances = plan.distances
    nodes = torch.arange(plan.num_nodes, device=subgraphs.device)
    nearest = torch.full_like(nodes, plan.num_nodes, dtype=torch.int32)

    def score(covered: Tensor, last: Tensor) -> Tensor:
        newest = last.index_select(0, plan.component)
        # newest is -1 if the last step sampled no root of this component. The distance
        # of each node to itself is then looked up and replaced by an upper bound, which
        # does not change the minimum.
        far = distances.between(torch.where(newest < 0, nodes, newest), nodes)
        far = far.masked_fill(newest < 0, plan.num_nodes)
        torch.minimum(nearest, far, out=nearest)
        return nearest.index_select(0, subgraphs.root)

    return sample_greedily(subgraphs, plan, min_coverage, score, rank, ties)


class _Nearest:
    """For each subgraph, the distance from its root to the nearest sampled root.

    After a step, a breadth-first search from the new root visits only the nodes that
    are nearer to this root than to all earlier ones. A table of all distances would
    take quadratic memory.

    Args:
        subgraphs: The s rooted subgraphs.
        plan: The sampling plan: what SubgraphDrop precomputes for this batch.
    """

    def __init__(self, subgraphs: RootedSubgraphs, plan: Plan) -> None:
        self.root = subgraphs.root.cpu().numpy()
        neighbors = plan.near.nodes(plan.component, plan.by_component)
        self.ptr, self.neighbor = (part.cpu().numpy() for part in neighbors)
        self.nearest = np.full(plan.num_nodes, plan.num_nodes, dtype=np.int64)
        self.place = np.empty_like(self.nearest)

    def begin(self, nodes: Array) -> None:
        """Begin to sample in a connected component with the given nodes."""

    def of(self, subgraphs: Array | int) -> Array:
        """Return the current scores of some subgraphs, or of one subgraph."""
        return self.nearest[self.root[subgraphs]]

    def update(self, subgraph: int, nodes: Array) -> bool:
        """Search from a new root; return False, because no distance becomes larger."""
        frontier = self.root[subgraph : subgraph + 1]
        distance = 0
        while frontier.size:
            self.nearest[frontier] = distance
            distance += 1
            found = rows(self.ptr, self.neighbor, frontier)
            found = found[self.nearest[found] > distance]
            # Of equal nodes, keep the one that was written last.
            number = np.arange(found.size)
            self.place[found] = number
            frontier = found[self.place[found] == number]
        return False
