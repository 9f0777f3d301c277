"""SubgraphDrop: from all rooted subgraphs of a batch to a few that cover it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.errors import CoverageError
from gnnak.graphs.adjacency import check_edge_index
from gnnak.graphs.ragged import counts_of, pointers
from gnnak.sampling.coverage import coverage
from gnnak.sampling.estimate import Filling, SampledSubgraphs, plan_filling
from gnnak.sampling.farthest import farthest_roots
from gnnak.sampling.plan import Plan, make_plan
from gnnak.sampling.random_roots import random_roots
from gnnak.sampling.set_cover import set_cover_roots
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_choice, check_count

Strategy = Literal["random", "farthest", "min-set-cover"]
Chooser = Callable[[RootedSubgraphs, Plan, int, torch.Generator | None], Tensor]

CHOOSERS: dict[Strategy, Chooser] = {
    "random": random_roots,
    "farthest": farthest_roots,
    "min-set-cover": set_cover_roots,
}


@dataclass(frozen=True)
class SubgraphDrop:
    """Keep a random choice of subgraphs that covers every node R times.

    Nodes that fewer than R subgraphs hold are covered as often as they can be: all of
    these stay. Every connected component is covered for itself.

    Args:
        strategy: "random": roots in random order; "farthest": always the root farthest
            from the kept ones; "min-set-cover": always the subgraph with the most
            least-covered nodes. The last two start with a random root.
        min_coverage: R, the redundancy: how often every node is to be covered.

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

    def __post_init__(self) -> None:
        check_choice("strategy", self.strategy, get_args(Strategy))
        check_count("min_coverage", self.min_coverage, least=1)

    def plan(self, subgraphs: RootedSubgraphs, edge_index: Tensor) -> Plan:
        """Compute what no draw changes, to be handed to every draw of this batch."""
        num_nodes = subgraphs.num_subgraphs
        self._check(subgraphs, edge_index)
        return make_plan(
            subgraphs, edge_index, num_nodes, distances=self.strategy == "farthest"
        )

    def choose(
        self,
        subgraphs: RootedSubgraphs,
        plan: Plan,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Draw which subgraphs are kept, [s] bool."""
        if self.strategy == "farthest" and plan.distances is None:
            raise CoverageError(
                "the plan has no distances; make it with a SubgraphDrop('farthest')."
            )
        chooser = CHOOSERS[self.strategy]
        return chooser(subgraphs, plan, self.min_coverage, generator)

    def __call__(
        self,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        generator: torch.Generator | None = None,
        plan: Plan | None = None,
    ) -> SampledSubgraphs:
        """Draw a few of the subgraphs, with what stands in for the others.

        Args:
            subgraphs: A rooted subgraph for every node of the batch.
            edge_index: The batch's edges, [2, e].
            generator: Source of randomness, on the batch's device.
            plan: From `plan`, of this very batch; computed if not given.
        """
        if plan is None:
            plan = self.plan(subgraphs, edge_index)
        elif plan.num_nodes != subgraphs.num_subgraphs:
            raise CoverageError(
                f"the plan is of a batch of {plan.num_nodes} nodes, this one has "
                f"{subgraphs.num_subgraphs}; make a plan of this batch."
            )
        kept = self.choose(subgraphs, plan, generator)
        return keep_subgraphs(subgraphs, edge_index, kept, plan)

    @staticmethod
    def _check(subgraphs: RootedSubgraphs, edge_index: Tensor) -> None:
        num_nodes = subgraphs.num_nodes
        if num_nodes is not None and num_nodes != subgraphs.num_subgraphs:
            raise CoverageError(
                f"there are {subgraphs.num_subgraphs} subgraphs for {num_nodes} nodes; "
                "SubgraphDrop starts from a subgraph of every node."
            )
        check_edge_index(edge_index, subgraphs.num_subgraphs)


def keep_subgraphs(
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    kept: Tensor,
    plan: Plan | None = None,
) -> SampledSubgraphs:
    """The kept subgraphs as a record of their own.

    Args:
        subgraphs: A rooted subgraph for every node.
        edge_index: The graph's edges, [2, e].
        kept: Which subgraphs stay, [s] bool; every node must be in one of them.
        plan: Of this very batch, where there is one: it saves work.
    """
    num_nodes = subgraphs.num_subgraphs
    of_kept = kept.index_select(0, subgraphs.subgraph)
    inside = of_kept.index_select(0, subgraphs.edge_index[0])
    before = [pointers(mask.long()) for mask in (kept, of_kept, inside)]
    roots, copies, edges = _places(before)
    node = subgraphs.node.index_select(0, copies)
    covered = counts_of(node, num_nodes)
    _check_covered(covered)
    number, new_copy = before[0][:-1], before[1][:-1]
    ends = subgraphs.edge_index.index_select(1, edges)
    root = subgraphs.root.index_select(0, roots)
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
        filling=filling_of(subgraphs, edge_index, kept, number, root, plan),
    )


def _places(before: list[Tensor]) -> list[Tensor]:
    """Where masks are true, of each how often it is so before every place and in all.

    The host waits for all of them at once.
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
            f"node {node} is in none of the kept subgraphs; keep at least one of each."
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
    """Return the estimates at dropped roots as weights of the sampled subgraphs.

    Args:
        subgraphs: A rooted subgraph for every node.
        edge_index: The graph's edges, [2, e].
        sampled: Which subgraphs are sampled, [s] bool.
        number: How many sampled subgraphs come before each, [s].
        root: The roots of the sampled subgraphs.
        plan: The plan of this batch, where there is one.
    """
    return plan_filling(edge_index, subgraphs.num_subgraphs, root)
