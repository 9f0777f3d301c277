"""The plans of a whole store, computed once, put together for batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from gnnak.graphs.indices import Indices, indices_at
from gnnak.graphs.ragged import chunk_cuts, counts_of, pointers, ragged_ranges
from gnnak.graphs.store import GraphStore
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.near import Near
from gnnak.sampling.pairs import PairDistances
from gnnak.sampling.plan import Plan
from gnnak.subgraphs.cached import CachedSubgraphs
from gnnak.subgraphs.groups import Groups

CACHED_PAIRS = 2**26
"""Most pairs of nodes of a store whose distances are kept: 256 megabytes of them."""
CHUNK = 2**22
"""About how many pairs of nodes are planned at a time, a node counting as 16."""


@dataclass(frozen=True, eq=False, repr=False)
class CachedPlans:
    """What draws of roots need of every graph of a store and no draw changes.

    `plans[indices]` says what `drop.plan` does of `store[indices]`, put together
    without a loop over graphs and without a wait for the device. Numbers inside a graph
    start at 0 and are int32: half the memory.
    """

    store: GraphStore
    """The graphs, on the same device."""
    num_components: Tensor
    """[g], int64: components of each graph."""
    sizes: Tensor
    """[c], int64: nodes of each component."""
    nodes: Tensor
    """[5, n] or, with distances, [7, n]: the component of each node; nodes, component
    by component; how many subgraphs hold each; `start` and `count` of `Near`; `start`
    and `place` of distances."""
    near: Tensor
    """The neighbours of all nodes, which all plans share: `place` of `Near`."""
    hop: Tensor | None
    """The distances of all pairs of nodes, which all plans share; or None."""
    largest: int
    """Nodes of the largest component."""

    @cached_property
    def component_ptr(self) -> Tensor:
        """[g + 1]: where the components of each graph start."""
        return pointers(self.num_components)

    @cached_property
    def counts(self) -> Tensor:
        """[2, g]: nodes and components of each graph, on the host."""
        return torch.stack([self.store.counts[0], self.num_components.cpu()])

    def __getitem__(self, indices: Indices) -> Plan:
        """The plan of `store[indices]`."""
        store = self.store
        host, graph = indices_at(indices, len(store), store.device)
        num_nodes, num_components = self.counts[:, host].sum(dim=1).tolist()
        nodes, parts = store.num_nodes[graph], self.num_components[graph]
        of, node = ragged_ranges(store.node_ptr[graph], nodes, num_nodes)
        start = self.component_ptr[graph]
        component = ragged_ranges(start, parts, num_components)[1]
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

    def __repr__(self) -> str:
        pairs = 0 if self.hop is None else self.hop.numel()
        return (
            f"CachedPlans(graphs={len(self.store)}, components={self.sizes.numel()}, "
            f"pairs={pairs})"
        )


def cache_plans(
    kept: CachedSubgraphs, drop: SubgraphDrop, limit: int = CACHED_PAIRS
) -> CachedPlans | None:
    """The plans of all graphs of a store; None where the distances would not fit.

    Args:
        kept: The rooted subgraphs of the store.
        drop: What draws from them.
        limit: Pairs of nodes there may be, where their distances are wanted.

    >>> from gnnak.graphs import parse_graph6
    >>> from gnnak.subgraphs import EgoNets
    >>> from gnnak.subgraphs.cached import cache_subgraphs
    >>> cache_plans(cache_subgraphs(parse_graph6("C~"), EgoNets(1)), SubgraphDrop())
    CachedPlans(graphs=1, components=1, pairs=16)
    """
    store = kept.store
    work = 16 * store.num_nodes
    if drop.strategy == "farthest":
        pairs = store.num_nodes.square()
        if int(pairs.sum()) > limit:
            return None
        work = torch.maximum(work, pairs)
    parts, tables, largest, before = [], [], 0, (0, 0)
    for ends in pairwise([0, *chunk_cuts(work, CHUNK), len(store)]):
        graphs = store[slice(*ends)]
        plan = drop.plan(kept[slice(*ends)], graphs.edge_index)
        parts.append(_local(plan, graphs.batch, graphs.ptr, before))
        largest = max(largest, plan.largest)
        if plan.distances is not None:
            tables.append(plan.distances.hop)
        before = sum(map(len, tables)), before[1] + plan.near.place.numel()
    joined = [torch.cat(part, dim=-1) for part in zip(*parts, strict=True)]
    hop = torch.cat(tables) if tables else None
    num_components, sizes, nodes, near = joined
    return CachedPlans(store, num_components, sizes, nodes, near, hop, largest)


def _local(
    plan: Plan, batch: Tensor, ptr: Tensor, before: tuple[int, int]
) -> tuple[Tensor, ...]:
    """Fields of `CachedPlans` of a few graphs; `before` them are pairs and neighbours."""
    groups, near = plan.by_component, plan.near
    assert groups.order is not None, "nodes are grouped by a sort"
    home = batch[groups.order[groups.ptr[:-1]]]
    parts = counts_of(home, ptr.numel() - 1)
    rows = [plan.component - pointers(parts)[batch], groups.order - ptr[batch]]
    rows += [plan.held, near.start + before[1], near.count]
    if plan.distances is not None:
        rows += [plan.distances.start + before[0], plan.distances.place]
    return parts, groups.ptr.diff(), torch.stack(rows).int(), near.place
