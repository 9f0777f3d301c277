"""Compute the sampling plans (see `Plan`) of all graphs once, for all batches."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TypeGuard

import torch
from torch import Tensor

from gnnak.graphs.adjacency import incoming
from gnnak.graphs.ragged import chunk_cuts, counts_of, pointers, ragged_ranges
from gnnak.graphs.store import GraphStore, Indices, indices_at
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.sampling.plan import Near, PairDistances, Plan
from gnnak.subgraphs.cached import CachedSubgraphs
from gnnak.subgraphs.copy_limit import CopyLimit
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.induce import induced_edges


def can_sample_first(extractor: object) -> TypeGuard[EgoNets]:
    return type(extractor) is EgoNets and extractor.max_neighbors is None


def sample_egonets(
    drop: SubgraphDrop,
    extractor: EgoNets,
    edge_index: Tensor,
    num_nodes: int,
    generator: torch.Generator | None = None,
) -> SampledSubgraphs:
    """Extract egonets and sample some of them. Dropped egonets get no edges."""
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
"""Number of rows of `CachedPlans.nodes` without distances."""


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
    """[5, n] or [7, n], int32: `component`, `by_component.order`, `held`, `near.start`,
    `near.count` and, if not None, `distances.start` and `distances.place` of `Plan`."""
    near: Tensor
    """The tensors `Plan.near.place` of all graphs, concatenated."""
    hop: Tensor | None
    """The tensors `Plan.distances.hop` of all graphs, concatenated, or None."""
    largest: int

    @cached_property
    def component_ptr(self) -> Tensor:
        """[g + 1]: where the components of each graph start in `sizes`."""
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
