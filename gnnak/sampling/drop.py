"""SubgraphDrop: sample a few rooted subgraphs that together contain all nodes.

A sampling plan (`Plan`) holds what SubgraphDrop precomputes for a batch: everything
that does not depend on randomness.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.errors import CoverageError, OptionError
from gnnak.graphs.adjacency import check_edge_index
from gnnak.graphs.ragged import counts_of, pointers
from gnnak.sampling.estimate import Filling, SampledSubgraphs, plan_filling
from gnnak.sampling.greedy import Ties, farthest_roots, set_cover_roots
from gnnak.sampling.plan import Plan, make_plan
from gnnak.sampling.random_roots import coverage, random_roots, share_roots
from gnnak.subgraphs.encodings import extracted_encodings
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_choice, check_share, convert_count

Strategy = Literal["random", "farthest", "min-set-cover"]


@dataclass(frozen=True, repr=False)
class SubgraphDrop:
    """Sample subgraphs until each node is in at least R sampled subgraphs.

    If fewer than R subgraphs contain a node, all of them are sampled. Every connected
    component is sampled separately.

    Args:
        strategy: How to choose the next subgraph. "random": at random; "farthest": the
            subgraph whose root is farthest from the roots sampled so far;
            "min-set-cover": the subgraph with the largest number of least covered
            nodes, that is, of nodes in the fewest sampled subgraphs so far. The last
            two start with a random subgraph.
        min_coverage: The redundancy R, the number of sampled subgraphs that must
            contain each node.
        ties: For "farthest" and "min-set-cover": which of several subgraphs is sampled
            if all of them are farthest, or have the same number of least covered nodes.
            "random": a random one; "lowest": the one whose root has the lowest node
            number, as in the published code.
        share: For "random": draw this share of the roots, rounded down, and draw anew
            until every node is covered, as in the published code. A connected component
            that 1000 draws do not cover is sampled as with None. None = sample
            subgraphs in random order until every node is covered.

    >>> from gnnak import EgoNets
    >>> ring = torch.stack([torch.arange(9), torch.arange(1, 10) % 9])
    >>> ring = torch.cat([ring, ring.flip(0)], dim=1)
    >>> drop = SubgraphDrop("farthest", min_coverage=1)
    >>> few = drop(EgoNets(2)(ring, 9), ring, torch.Generator().manual_seed(0))
    >>> few.num_subgraphs < 9
    True
    """

    strategy: Strategy = "farthest"
    min_coverage: int = 3
    ties: Ties = "random"
    share: float | None = None

    def __post_init__(self) -> None:
        check_choice("strategy", self.strategy, get_args(Strategy))
        convert_count(self, "min_coverage", least=1)
        check_choice("ties", self.ties, get_args(Ties))
        if self.ties != "random" and self.strategy == "random":
            raise OptionError(
                f"ties is {self.ties!r}, but the strategy 'random' has no ties; set "
                "ties to 'random'."
            )
        if self.share is None:
            return
        check_share("share", self.share)
        if self.strategy != "random":
            raise OptionError(
                f"share is {self.share!r}, but the strategy is {self.strategy!r}; only "
                "'random' samples a share of the roots, so set share to None."
            )

    def __repr__(self) -> str:
        # Without options at their default, as in states of loaders of older versions.
        shown = f"strategy={self.strategy!r}, min_coverage={self.min_coverage!r}"
        if self.ties != "random":
            shown += f", ties={self.ties!r}"
        if self.share is not None:
            shown += f", share={self.share!r}"
        return f"SubgraphDrop({shown})"

    def plan(self, subgraphs: RootedSubgraphs, edge_index: Tensor) -> Plan:
        """Compute the sampling plan: everything that does not depend on randomness.

        If subgraphs of a batch are sampled repeatedly, compute the plan once and pass
        the plan to every call, to save time.

        Args:
            subgraphs: A rooted subgraph for every node of the batch.
            edge_index: The batch's edges, [2, e].
        """
        num_nodes = subgraphs.num_subgraphs
        self._check(subgraphs, edge_index)
        return make_plan(
            subgraphs, edge_index, num_nodes, distances=self.strategy == "farthest"
        )

    def sample_mask(
        self,
        subgraphs: RootedSubgraphs,
        plan: Plan,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Sample subgraphs at random; return a boolean mask of the sampled ones, [s].

        Args:
            subgraphs: The s rooted subgraphs, one for every node of the batch.
            plan: The sampling plan of this batch, as returned by the method `plan`.
            generator: Source of randomness; PyTorch's default generator if None.
        """
        lacks_distances = self.strategy == "farthest" and plan.distances is None
        if lacks_distances and not plan.is_large(subgraphs):
            raise CoverageError(
                "the plan has no distances; make it with SubgraphDrop('farthest').plan."
            )
        wanted = self.min_coverage
        if self.strategy == "farthest":
            return farthest_roots(subgraphs, plan, wanted, generator, self.ties)
        if self.strategy == "min-set-cover":
            return set_cover_roots(subgraphs, plan, wanted, generator, self.ties)
        if self.share is not None:
            return share_roots(subgraphs, plan, wanted, self.share, generator)
        return random_roots(subgraphs, plan, wanted, generator)

    def __call__(
        self,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
        plan: Plan | None = None,
    ) -> SampledSubgraphs:
        """Sample subgraphs of a batch at random.

        Args:
            subgraphs: A rooted subgraph for every node of the batch.
            edge_index: The batch's edges, [2, e].
            generator: Source of randomness; PyTorch's default generator if None.
            plan: The sampling plan of this batch, as returned by the method `plan`; if
                None, the plan is computed.

        Returns:
            The sampled subgraphs, with a matrix that estimates the encodings of the
            roots of dropped subgraphs.
        """
        if subgraphs.real is not None:
            raise CoverageError(
                "these subgraphs are padded; sample subgraphs before they are padded."
            )
        if plan is None:
            plan = self.plan(subgraphs, edge_index)
        elif plan.num_nodes != subgraphs.num_subgraphs:
            raise CoverageError(
                f"the plan is of a batch of {plan.num_nodes} nodes, this one has "
                f"{subgraphs.num_subgraphs}; compute the plan of this batch."
            )
        sampled = self.sample_mask(subgraphs, plan, generator)
        return sample_subgraphs(subgraphs, edge_index, sampled, plan)

    @staticmethod
    def _check(subgraphs: RootedSubgraphs, edge_index: Tensor) -> None:
        num_nodes = subgraphs.num_nodes
        if num_nodes is not None and num_nodes != subgraphs.num_subgraphs:
            raise CoverageError(
                f"there are {subgraphs.num_subgraphs} subgraphs for {num_nodes} nodes; "
                "SubgraphDrop needs a subgraph of every node."
            )
        check_edge_index(edge_index, subgraphs.num_subgraphs)


def sample_subgraphs(
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    sampled: Tensor,
    plan: Plan | None = None,
) -> SampledSubgraphs:
    """Select the subgraphs of a given mask and drop the others.

    Args:
        subgraphs: The s rooted subgraphs, one for every node.
        edge_index: The graph's edges, [2, e].
        sampled: Boolean mask of the subgraphs to select, [s]; every node must be in at
            least one selected subgraph.
        plan: The sampling plan of this batch, as returned by `SubgraphDrop.plan`. If
            None, the parts that are needed are computed, which takes longer.

    Returns:
        The selected subgraphs, with a matrix that estimates the encodings of the roots
        of dropped subgraphs.

    Raises:
        CoverageError: If a node is in no selected subgraph; not checked on a GPU.
    """
    num_nodes = subgraphs.num_subgraphs
    copy_sampled = sampled.index_select(0, subgraphs.subgraph)
    edge_sampled = copy_sampled.index_select(0, subgraphs.edge_index[0])
    masks = (sampled, copy_sampled, edge_sampled)
    before = [pointers(mask.long()) for mask in masks]
    roots, copies, edges = _indices_of_true(before)
    node = subgraphs.node.index_select(0, copies)
    covered = counts_of(node, num_nodes)
    _check_covered(covered)
    number, new_copy = before[0][:-1], before[1][:-1]
    ends = subgraphs.edge_index.index_select(1, edges)
    root = subgraphs.root.index_select(0, roots)
    encodings = {
        key: found if found.axis == "nodes" else found.at(copies)
        for key, found in extracted_encodings(subgraphs).items()
    }
    return SampledSubgraphs(
        root,
        node,
        number.index_select(0, subgraphs.subgraph.index_select(0, copies)),
        subgraphs.hop.index_select(0, copies),
        new_copy[ends],
        subgraphs.edge.index_select(0, edges),
        num_nodes=num_nodes,
        num_edges=subgraphs.num_edges,
        held=coverage(subgraphs, num_nodes) if plan is None else plan.held,
        covered=covered,
        filling=filling_of(subgraphs, edge_index, sampled, number, root, plan),
    ).assume(**encodings)


def _indices_of_true(before: list[Tensor]) -> list[Tensor]:
    """Return the positions of the True entries of several boolean masks.

    Args:
        before: For each mask, the exclusive cumulative sum of its entries, and the
            total as a last entry.
    """
    totals = torch.stack([counts[-1] for counts in before]).tolist()
    wanted = torch.arange(1, max(totals) + 1, device=before[0].device)
    return [
        torch.searchsorted(counts[1:], wanted[:total])
        for counts, total in zip(before, totals, strict=True)
    ]


def _check_covered(covered: Tensor) -> None:
    if not covered.is_cuda and not bool((covered > 0).all()):
        node = int((covered == 0).nonzero()[0])
        raise CoverageError(
            f"node {node} is in none of the sampled subgraphs; sample at least one of "
            "those that contain it."
        )


@operation
def filling_of(
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    sampled: Tensor,
    number: Tensor,
    root: Tensor,
    plan: Plan | None,
) -> Filling:
    """Compute the matrix that estimates encodings of all nodes from sampled roots.

    The matrix is defined in `plan_filling`.

    Args:
        subgraphs: The s rooted subgraphs, one for every node.
        edge_index: The graph's edges, [2, e].
        sampled: Boolean mask of the sampled subgraphs, [s].
        number: Number of sampled subgraphs before each subgraph, [s]; for a sampled
            subgraph, this is its index among the sampled subgraphs.
        root: The roots of the sampled subgraphs.
        plan: The sampling plan (what SubgraphDrop precomputes for a batch); None if it
            has not been computed.
    """
    return plan_filling(edge_index, subgraphs.num_subgraphs, root)
