"""Greedy minimum set cover: always sample the subgraph that improves coverage most."""

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
def set_cover_roots(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: torch.Generator | None = None,
    ties: Ties = "random",
) -> Tensor:
    """Sample subgraphs greedily, by the number of least-covered nodes they contain.

    A node is covered if it is in at least `min_coverage` sampled subgraphs, or if all
    subgraphs that contain the node are sampled. Of the uncovered nodes of a connected
    component, the least-covered nodes are those in the fewest sampled subgraphs. Every
    component is sampled separately, until all of its nodes are covered; its first
    subgraph is random.

    Args:
        subgraphs: The s rooted subgraphs.
        plan: The sampling plan: what SubgraphDrop precomputes for this batch.
        min_coverage: R, the number of sampled subgraphs that must contain each node.
        generator: Source of randomness; PyTorch's default generator if None.
        ties: Which of several subgraphs with equal scores is sampled.

    Returns:
        Boolean mask of the sampled subgraphs, [s].
    """
    rank = random_order(subgraphs, generator)
    if plan.is_large(subgraphs):
        coverage = Coverage(subgraphs, plan, min_coverage)
        scores = _LeastCovered(subgraphs, coverage)
        return sample_one_by_one(subgraphs, plan, coverage, scores, rank, ties)
    wanted = plan.held.clamp(max=min_coverage)
    never = torch.iinfo(wanted.dtype).max

    def score(covered: Tensor, last: Tensor) -> Tensor:
        lacking = covered.masked_fill(covered >= wanted, never)
        least = wanted.new_full((plan.num_components,), never)
        least = least.scatter_reduce(0, plan.component, lacking, "amin")
        least_covered = (lacking < never) & (lacking == least[plan.component])
        members = least_covered.long().index_select(0, subgraphs.node)
        total = wanted.new_zeros(subgraphs.num_subgraphs)
        return total.index_add(0, subgraphs.subgraph, members)

    return sample_greedily(subgraphs, plan, min_coverage, score, rank, ties)


class _LeastCovered:
    """For each subgraph, the number of least-covered nodes that it contains.

    Of the nodes that still lack sampled subgraphs, the least-covered ones are marked. A
    node that a step covers is unmarked, which lowers the scores of the subgraphs that
    contain the node. If no marked node is left, nodes are marked anew.

    Args:
        subgraphs: The s rooted subgraphs.
        coverage: The number of sampled subgraphs that contain each node.
    """

    def __init__(self, subgraphs: RootedSubgraphs, coverage: Coverage) -> None:
        self.coverage = coverage
        by_node = subgraphs.by("node")
        assert by_node.order is not None, "copies are grouped by a sort"
        self.ptr = by_node.ptr.cpu().numpy()
        self.holder = subgraphs.subgraph[by_node.order].cpu().numpy()
        self.marked = np.zeros(coverage.covered.size, dtype=bool)
        self.num_marked = 0
        self.score = np.zeros(subgraphs.num_subgraphs, dtype=np.int64)

    def begin(self, nodes: Array) -> None:
        """Begin to sample in a connected component with the given nodes."""
        self.nodes, self.num_marked = nodes, 0

    def of(self, subgraphs: Array | int) -> Array:
        """Return the current scores of some subgraphs, or of one subgraph."""
        return self.score[subgraphs]

    def update(self, subgraph: int, nodes: Array) -> bool:
        """Unmark the nodes of a sampled subgraph; return whether nodes were marked."""
        covered = nodes[self.marked[nodes]]
        self.marked[covered] = False
        self.num_marked -= covered.size
        if self.num_marked:
            np.subtract.at(self.score, rows(self.ptr, self.holder, covered), 1)
            return False
        self._mark()
        return True

    def _mark(self) -> None:
        """Mark the least-covered nodes, and compute all scores of the component."""
        covered, wanted = self.coverage.covered, self.coverage.wanted
        lacking = self.nodes[covered[self.nodes] < wanted[self.nodes]]
        least = lacking[covered[lacking] == covered[lacking].min()]
        self.marked[least] = True
        self.num_marked = least.size
        self.score[rows(self.ptr, self.holder, self.nodes)] = 0
        np.add.at(self.score, rows(self.ptr, self.holder, least), 1)
