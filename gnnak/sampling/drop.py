"""SubgraphDrop: sample a few rooted subgraphs that together contain all nodes."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeGuard, get_args

import torch
from torch import Generator, Tensor

from gnnak.backend import operation
from gnnak.errors import CoverageError
from gnnak.graphs.adjacency import check_edge_index, incoming
from gnnak.graphs.ragged import chunk_cuts, counts_of, pointers, ragged_ranges
from gnnak.graphs.store import GraphStore, Indices, indices_at
from gnnak.sampling.estimate import Filling, SampledSubgraphs, plan_filling
from gnnak.sampling.greedy import Ties, farthest_roots, set_cover_roots
from gnnak.sampling.plan import Near, PairDistances, Plan, make_plan
from gnnak.sampling.random_roots import coverage, random_roots, share_roots
from gnnak.subgraphs.cached import CachedSubgraphs
from gnnak.subgraphs.copy_limit import CopyLimit
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.encodings import extracted_encodings
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.induce import induced_edges
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import check_choice, check_share, convert_count

Strategy = Literal["random", "farthest", "min-set-cover"]


@dataclass(frozen=True, repr=False)
class SubgraphDrop:
    """Sample subgraphs until each node is in at least R sampled subgraphs.

    If fewer than R subgraphs contain a node, all of these are sampled. Every connected
    component is sampled separately.

    Args:
        strategy: How to choose the next subgraph. "random": at random. "farthest": the
            subgraph whose root is farthest from the roots sampled so far.
            "min-set-cover": the subgraph with the most least-covered nodes, which are
            the nodes in the fewest sampled subgraphs so far. "farthest" and
            "min-set-cover" start with a random subgraph.
        min_coverage: The redundancy R, the number of sampled subgraphs that must
            contain each node.
        ties: Used by "farthest" and "min-set-cover", ignored by "random": which of
            several subgraphs with equal scores is sampled. "random": a random one;
            "lowest": that whose root has the lowest number, as in the paper's code.
        share: Only used by "random": sample this share of the roots of each connected
            component, rounded down. Repeat this until a sample covers every node, as in
            the paper's code. If None, or if a component is still not covered after 1000
            samples, sample subgraphs in random order until every node is covered.

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
        if self.share is not None:
            check_share("share", self.share)

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

        If a batch is sampled repeatedly, pass its plan to every call, to save time.

        Args:
            subgraphs: A rooted subgraph for every node of the batch.
            edge_index: The batch's edges, [2, e].
        """
        num_nodes, num_subgraphs = subgraphs.num_nodes, subgraphs.num_subgraphs
        if num_nodes not in (None, num_subgraphs):
            told = f"there are {num_subgraphs} subgraphs for {num_nodes} nodes"
            raise CoverageError(f"{told}; SubgraphDrop needs a subgraph of every node.")
        check_edge_index(edge_index, num_subgraphs)
        distances = self.strategy == "farthest"
        return make_plan(subgraphs, edge_index, num_subgraphs, distances)

    def sample_mask(
        self, subgraphs: RootedSubgraphs, plan: Plan, generator: Generator | None = None
    ) -> Tensor:
        """Sample subgraphs at random, and return a boolean mask of them, [s].

        Args:
            subgraphs: The s rooted subgraphs, one for every node of the batch.
            plan: The sampling plan of this batch, as returned by the method `plan`.
            generator: Source of randomness; PyTorch's default generator if None.
        """
        lacks_distances = self.strategy == "farthest" and plan.distances is None
        if lacks_distances and not plan.is_large(subgraphs):
            told = "the plan has no distances"
            raise CoverageError(f"{told}; make it with SubgraphDrop('farthest').plan.")
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
        generator: Generator | None = None,
        plan: Plan | None = None,
    ) -> SampledSubgraphs:
        """Sample some of the rooted subgraphs of a batch, at random.

        Args:
            subgraphs: A rooted subgraph for every node of the batch.
            edge_index: The batch's edges, [2, e].
            generator: Source of randomness; PyTorch's default generator if None.
            plan: The result of the method `plan` for this batch. If None, the plan is
                computed now.

        Returns:
            The sampled subgraphs, with a matrix to estimate encodings of dropped roots.
        """
        if subgraphs.real is not None:
            told = "these subgraphs are padded"
            raise CoverageError(f"{told}; sample subgraphs before they are padded.")
        if plan is None:
            plan = self.plan(subgraphs, edge_index)
        elif plan.num_nodes != subgraphs.num_subgraphs:
            told = f"the plan is of a batch of {plan.num_nodes} nodes, this one has"
            count = subgraphs.num_subgraphs
            raise CoverageError(f"{told} {count}; compute the plan of this batch.")
        sampled = self.sample_mask(subgraphs, plan, generator)
        return sample_subgraphs(subgraphs, edge_index, sampled, plan)


def sample_subgraphs(
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    sampled: Tensor,
    plan: Plan | None = None,
) -> SampledSubgraphs:
    """Select the subgraphs in the mask `sampled`, and drop the others.

    Args:
        subgraphs: The s rooted subgraphs, one for every node.
        edge_index: The graph's edges, [2, e].
        sampled: Boolean mask of the subgraphs to select, [s]; every node must be in at
            least one selected subgraph (checked only on a CPU).
        plan: The result of `SubgraphDrop.plan` for this batch. If None, the parts of
            the plan that are needed are computed now.

    Returns:
        The selected subgraphs, with a matrix to estimate encodings of dropped roots.
    """
    num_nodes = subgraphs.num_subgraphs
    copy_sampled = sampled.index_select(0, subgraphs.subgraph)
    edge_sampled = copy_sampled.index_select(0, subgraphs.edge_index[0])
    # For each mask, the number of True entries before each entry, and their total.
    before = [pointers(mask.long()) for mask in (sampled, copy_sampled, edge_sampled)]
    # The positions of the True entries; their numbers are read at once.
    totals = torch.stack([counts[-1] for counts in before]).tolist()
    wanted = torch.arange(1, max(totals) + 1, device=sampled.device)
    roots, copies, edges = (
        torch.searchsorted(counts[1:], wanted[:total])
        for counts, total in zip(before, totals, strict=True)
    )
    node = subgraphs.node.index_select(0, copies)
    covered = counts_of(node, num_nodes)
    if not covered.is_cuda and not bool((covered > 0).all()):
        told = f"node {int((covered == 0).nonzero()[0])} is in none of the sampled"
        raise CoverageError(f"{told} subgraphs; sample one of those that contain it.")
    number, new_copy = before[0][:-1], before[1][:-1]
    ends = subgraphs.edge_index.index_select(1, edges)
    root = subgraphs.root.index_select(0, roots)
    encodings = {
        key: found if found.axis == "nodes" else found.at(copies)
        for key, found in extracted_encodings(subgraphs).items()
    }
    subgraph = number.index_select(0, subgraphs.subgraph.index_select(0, copies))
    hop, edge = subgraphs.hop.index_select(0, copies), subgraphs.edge[edges]
    return SampledSubgraphs(
        *(root, node, subgraph, hop, new_copy[ends], edge),
        num_nodes=num_nodes,
        num_edges=subgraphs.num_edges,
        held=coverage(subgraphs, num_nodes) if plan is None else plan.held,
        covered=covered,
        filling=filling_of(subgraphs, edge_index, sampled, number, root, plan),
    ).assume(encodings=encodings)


@operation
def filling_of(
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    sampled: Tensor,
    number: Tensor,
    root: Tensor,
    plan: Plan | None,
) -> Filling:
    """Compute the matrix that estimates values of dropped roots from sampled ones."""
    return plan_filling(edge_index, subgraphs.num_subgraphs, root)


def can_sample_first(extractor: object) -> TypeGuard[EgoNets]:
    return type(extractor) is EgoNets and extractor.max_neighbors is None


def sample_egonets(
    drop: SubgraphDrop,
    extractor: EgoNets,
    edge_index: Tensor,
    num_nodes: int,
    generator: torch.Generator | None = None,
) -> SampledSubgraphs:
    """Find nodes of all egonets, sample egonets, and find edges of the sample only."""
    neighbors = incoming(edge_index, num_nodes)
    sampled = drop(extractor.without_edges(neighbors), edge_index, generator)
    limit = CopyLimit(extractor.copy_limit, edge_index.device)
    copies = sampled.node, sampled.subgraph, sampled.num_subgraphs
    ends, edge = induced_edges(*copies, neighbors, limit)
    return replace(sampled, edge_index=ends, edge=edge)


CACHED_PAIRS = 2**26
"""Default maximal number of cached distances between nodes: 256 MiB of int32."""
CHUNK = 2**22
"""Plans are computed for graphs with about this many node pairs at a time."""

NODE_ROWS = 5
"""Number of rows of `CachedPlans.nodes` if `CachedPlans.hop` is None."""


@dataclass(frozen=True, eq=False, repr=False)
class CachedPlans:
    """The sampling plans of all graphs; `plans[i]` is the plan of the batch `store[i]`.

    Node and component numbers are int32 and start at 0 in each graph.
    """

    store: GraphStore
    num_components: Tensor
    """[g], int64: number of connected components of each graph."""
    sizes: Tensor
    """[components of all graphs], int64: number of nodes of each component."""
    nodes: Tensor
    """[7, n], int32, or [5, n] if `hop` is None. The first five rows are from `Plan`:
    `component`, `by_component.order`, `held`, `near.start` and `near.count`. The other
    two are `distances.start` and `distances.place`."""
    near: Tensor
    """The neighbours of all nodes: `Plan.near.place` of all graphs, concatenated."""
    hop: Tensor | None
    """The tensors `Plan.distances.hop` of all graphs, concatenated, or None."""
    largest: int

    @cached_property
    def component_ptr(self) -> Tensor:
        """[g + 1]: pointers to each graph's first component, and to the end."""
        return pointers(self.num_components)

    @cached_property
    def counts(self) -> Tensor:
        """[2, g], on the CPU: each graph's number of nodes and of components."""
        return torch.stack([self.store.counts[0], self.num_components.cpu()])

    def __getitem__(self, indices: Indices) -> Plan:
        store = self.store
        host, graph = indices_at(indices, len(store), store.device)
        num_nodes, num_components = self.counts[:, host].sum(dim=1).tolist()
        nodes, parts = store.num_nodes[graph], self.num_components[graph]
        of, node = ragged_ranges(store.node_ptr[graph], nodes, num_nodes)
        component = ragged_ranges(self.component_ptr[graph], parts, num_components)[1]
        shift = torch.stack([pointers(parts)[:-1], pointers(nodes)[:-1]])
        found = self.nodes.index_select(1, node).long()
        found[:2] += shift.index_select(1, of)
        distances = None
        if self.hop is not None:
            distances = PairDistances(self.hop, found[5], found[6])
        return Plan(
            found[0],
            num_components,
            Groups(pointers(self.sizes[component]), found[1]),
            self.largest,
            found[2],
            Near(self.near, found[3], found[4]),
            distances,
        )


def cache_plans(
    cached: CachedSubgraphs, drop: SubgraphDrop, limit: int = CACHED_PAIRS
) -> CachedPlans | None:
    store = cached.store
    work = 16 * store.num_nodes
    if drop.strategy == "farthest":
        pairs = store.num_nodes.square()
        if int(pairs.sum()) > limit:
            return None
        work = torch.maximum(work, pairs)
    parts, tables, largest, before = [], [], 0, (0, 0)
    for ends in pairwise([0, *chunk_cuts(work, CHUNK), len(store)]):
        graphs = store[slice(*ends)]
        plan = drop.plan(cached[slice(*ends)], graphs.edge_index)
        parts.append(_fields(plan, graphs.batch, graphs.ptr, before))
        largest = max(largest, plan.largest)
        if plan.distances is not None:
            tables.append(plan.distances.hop)
        before = sum(map(len, tables)), before[1] + plan.near.place.numel()
    # Distances are used only if no chunk has a large connected component.
    hop = torch.cat(tables) if len(tables) == len(parts) else None
    if hop is None:
        parts = [(*part[:2], part[2][:NODE_ROWS], part[3]) for part in parts]
    joined = [torch.cat(part, dim=-1) for part in zip(*parts, strict=True)]
    num_components, sizes, nodes, near = joined
    return CachedPlans(store, num_components, sizes, nodes, near, hop, largest)


def _fields(
    plan: Plan, batch: Tensor, ptr: Tensor, before: tuple[int, int]
) -> tuple[Tensor, ...]:
    """Return `num_components`, `sizes`, `nodes`, `near` of `CachedPlans` for `plan`."""
    groups, near = plan.by_component, plan.near
    assert groups.order is not None, "nodes are grouped by a sort"
    parts = counts_of(batch[groups.order[groups.ptr[:-1]]], ptr.numel() - 1)
    rows = [plan.component - pointers(parts)[batch], groups.order - ptr[batch]]
    rows += [plan.held, near.start + before[1], near.count]
    if plan.distances is not None:
        rows += [plan.distances.start + before[0], plan.distances.place]
    return parts, groups.ptr.diff(), torch.stack(rows).int(), near.place
