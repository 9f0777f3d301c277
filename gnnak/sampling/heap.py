"""Greedy sampling in large connected components: update scores, do not recompute them.

The loop in `gnnak.sampling.greedy` computes the scores of all subgraphs after every
step. This is fast for a batch of many small graphs, but takes quadratic time on a large
graph. Here, a step updates only the scores that change, on the CPU, and a heap finds
the highest score. Both functions sample the same subgraphs.
"""

from heapq import heapify, heappop, heapreplace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from gnnak.sampling.greedy import Ties, tie_ranks
from gnnak.sampling.plan import Plan
from gnnak.subgraphs.rooted import RootedSubgraphs

Array = np.ndarray
"""An array of integers or booleans on the CPU."""


class Scores(Protocol):
    """The integer scores of subgraphs; the highest score is sampled next."""

    def begin(self, nodes: Array) -> None:
        """Begin to sample in a connected component with the given nodes."""
        ...

    def of(self, subgraphs: Array | int) -> Array:
        """Return the current scores of some subgraphs, or of one subgraph."""
        ...

    def update(self, subgraph: int, nodes: Array) -> bool:
        """Update the scores after a step.

        Args:
            subgraph: The subgraph that was sampled in the step.
            nodes: The nodes of this subgraph.

        Returns:
            True if a score may have become larger. Other changes lower the scores.
        """
        ...


class Coverage:
    """The number of sampled subgraphs that contain each node, and the number wanted.

    Args:
        subgraphs: The s rooted subgraphs.
        plan: The sampling plan: what SubgraphDrop precomputes for this batch.
        min_coverage: R, the number of sampled subgraphs that must contain each node.
    """

    def __init__(
        self, subgraphs: RootedSubgraphs, plan: Plan, min_coverage: int
    ) -> None:
        self.wanted = plan.held.clamp(max=min_coverage).cpu().numpy()
        self.covered = np.zeros_like(self.wanted)
        self.node = subgraphs.node.cpu().numpy()
        self.ptr = subgraphs.by("subgraph").ptr.tolist()

    def nodes_of(self, subgraph: int) -> Array:
        """Return the nodes of a subgraph."""
        return self.node[self.ptr[subgraph] : self.ptr[subgraph + 1]]

    def add(self, nodes: Array) -> int:
        """Count a newly sampled subgraph; return how many of its nodes it completes.

        A node is complete if it is in as many sampled subgraphs as wanted.
        """
        self.covered[nodes] += 1
        return int(np.count_nonzero(self.covered[nodes] == self.wanted[nodes]))


def rows(ptr: Array, values: Array, at: Array) -> Array:
    """Concatenate rows of a matrix in CSR form.

    Args:
        ptr: Where each row starts in `values`, and where the last row ends.
        values: The entries of all rows.
        at: The rows to concatenate.

    >>> rows(np.array([0, 2, 3, 6]), np.arange(6), np.array([2, 0]))
    array([3, 4, 5, 0, 1])
    """
    first = ptr[at]
    count = ptr[at + 1] - first
    end = count.cumsum()
    total = int(end[-1]) if end.size else 0
    return values[np.repeat(first - end + count, count) + np.arange(total)]


def sample_one_by_one(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    coverage: Coverage,
    scores: Scores,
    rank: Tensor,
    ties: Ties = "random",
) -> Tensor:
    """Repeatedly sample the subgraph with the highest score, until nodes are covered.

    Args:
        subgraphs: The s rooted subgraphs, one for every node.
        plan: The sampling plan: what SubgraphDrop precomputes for this batch.
        coverage: How many sampled subgraphs must contain each node.
        scores: The scores.
        rank: A random permutation of 0..s-1, [s]. The first step in each connected
            component samples the subgraph with the highest rank.
        ties: Which of several subgraphs with equal scores is sampled.

    Returns:
        Boolean mask of the sampled subgraphs, [s].
    """
    sampled = np.zeros(rank.numel(), dtype=bool)
    first = rank.cpu().numpy()
    luck = tie_ranks(subgraphs, rank, ties).cpu().numpy()
    at_rank = np.argsort(luck)
    order = plan.by_component.order
    assert order is not None, "nodes are grouped by a sort"
    rooted_at = subgraphs.rooted_at.cpu().numpy()
    cuts = plan.by_component.ptr[1:-1].tolist()
    for nodes in np.split(order.cpu().numpy(), cuts):
        scores.begin(nodes)
        members = rooted_at[nodes]
        chosen = int(members[first[members].argmax()])
        _sample(chosen, members, sampled, coverage, scores, luck, at_rank)
    return torch.from_numpy(sampled).to(rank.device)


def _sample(
    chosen: int,
    members: Array,
    sampled: Array,
    coverage: Coverage,
    scores: Scores,
    luck: Array,
    at_rank: Array,
) -> None:
    """Sample in one connected component; write into the boolean mask `sampled`.

    Args:
        chosen: The subgraph to sample first.
        members: The subgraphs of the component, one for every node.
        sampled: Boolean mask of the sampled subgraphs, [s]; changed in place.
        coverage: How many sampled subgraphs must contain each node.
        scores: The scores.
        luck: A permutation, [s]; of equal scores, the highest entry is sampled.
        at_rank: The inverse permutation, [s].
    """
    size, missing = luck.size, members.size
    # The key of a subgraph is -(score * s + luck): the smallest key is sampled next.
    queue: list[int] = []
    while True:
        sampled[chosen] = True
        nodes = coverage.nodes_of(chosen)
        missing -= coverage.add(nodes)
        if not missing:
            return
        if scores.update(chosen, nodes) or not queue:
            left = members[~sampled[members]]
            queue = (-(scores.of(left) * size + luck[left])).tolist()
            heapify(queue)
        while True:
            chosen = int(at_rank[-queue[0] % size])
            key = -int(scores.of(chosen) * size + luck[chosen])
            if key == queue[0]:
                heappop(queue)
                break
            heapreplace(queue, key)
