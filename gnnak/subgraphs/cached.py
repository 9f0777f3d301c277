"""Extract the rooted subgraphs of all graphs once, then look them up for each batch."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from gnnak.errors import SizeError
from gnnak.graphs.ragged import chunk_cuts, counts_of, narrow, pointers, ragged_ranges
from gnnak.graphs.store import GraphStore, Indices, indices_at
from gnnak.subgraphs.encodings import WithEncodings, extracted_encodings
from gnnak.subgraphs.extractors import Extractor, extract
from gnnak.subgraphs.rooted import Encoded, RootedSubgraphs

CACHE_BYTES = 2**31
"""Default limit on the memory of the cached subgraphs (2 GiB)."""
SAMPLE = 64
"""Number of graphs from which `cache_if_small` estimates the memory of the cache."""
CHUNK = 2**18
"""Approximate number of nodes per call of the extractor, to bound memory."""
PAIR_CHUNK = 2**21
"""Approximate number of node pairs per call of an extractor that computes encodings."""


@dataclass(frozen=True, eq=False, repr=False)
class CachedSubgraphs:
    """The rooted subgraphs of all nodes of all graphs of a store, in flat tensors.

    `cached[indices]` gathers the subgraphs of `store[indices]`, without a loop over
    graphs. Indices of nodes, edges and copies start at 0 in each graph, to fit into a
    small integer type (see `narrow`). In shapes, g, m and f are totals over the store.
    """

    store: GraphStore
    num_copies: Tensor
    """[g], int64: number of node copies of each graph."""
    num_edge_copies: Tensor
    """[g], int64: number of edge copies of each graph."""
    max_hop: Tensor
    """[g], int64: the largest entry of `hop` in each graph; -1 if it has no nodes."""
    node: Tensor
    """[m]: the node of each node copy."""
    subgraph: Tensor
    """[m]: the root of the subgraph of each node copy, as a node number."""
    hop: Tensor
    """[m]: distance of each node copy to the root; -1 if there is no path."""
    edge_index: Tensor
    """[2, f]: source and target node copy of each edge copy."""
    edge: Tensor
    """[f]: the edge of the graph that each edge copy is a copy of."""
    encodings: Mapping[Hashable, Encoded] = field(default_factory=dict, kw_only=True)
    """Structural encodings of all nodes or node copies, from `extracted_encodings`."""

    @cached_property
    def counts(self) -> Tensor:
        """[4, g], on the CPU: numbers of nodes, edges, node copies and edge copies."""
        copies = torch.stack([self.num_copies, self.num_edge_copies])
        return torch.cat([self.store.counts, copies.cpu()])

    @cached_property
    def _table(self) -> Tensor:
        """[6, g]: rows of `counts`, then each graph's first node copy and edge copy."""
        sizes = self.store.num_nodes, self.store.num_edges
        copies = self.num_copies, self.num_edge_copies
        first = (pointers(count)[:-1] for count in copies)
        return torch.stack([*sizes, *copies, *first])

    @cached_property
    def host_max_hop(self) -> Tensor:
        return self.max_hop.cpu()

    @property
    def int32_bytes(self) -> int:
        """Memory in bytes if all indices are int32 and not of a smaller type."""
        fields = self.node, self.subgraph, self.hop, self.edge_index, self.edge
        encoded = sum(found.rows.nbytes for found in self.encodings.values())
        return 4 * sum(tensor.numel() for tensor in fields) + encoded

    def __getitem__(self, indices: Indices) -> RootedSubgraphs:
        store = self.store
        host, graph = indices_at(indices, len(store), store.device)
        num_nodes, num_edges, *totals = self.counts[:, host].sum(dim=1).tolist()
        chosen = self._table.index_select(1, graph)
        _, _, copies, edge_copies, first_copy, first_edge_copy = chosen.unbind()
        node_ptr, edge_ptr, copy_ptr, edge_copy_ptr = pointers(chosen[:4]).unbind()
        of, copy = ragged_ranges(first_copy, copies, totals[0], copy_ptr)
        ranges = first_edge_copy, edge_copies, totals[1], edge_copy_ptr
        of_edge, edge_copy = ragged_ranges(*ranges)
        shift = node_ptr.index_select(0, of)
        copy_shift = copy_ptr.index_select(0, of_edge)
        found = RootedSubgraphs(
            torch.arange(num_nodes, device=store.device),
            self.node.index_select(0, copy) + shift,
            self.subgraph.index_select(0, copy) + shift,
            self.hop.index_select(0, copy).long(),
            self.edge_index.index_select(1, edge_copy) + copy_shift,
            self.edge.index_select(0, edge_copy) + edge_ptr.index_select(0, of_edge),
            num_nodes,
            num_edges,
        )
        max_hop = int(self.host_max_hop[host].max()) if host.numel() else -1
        found.assume(max_hop=max_hop, in_order=True)
        if not self.encodings:
            return found
        start = store.node_ptr[graph]
        _, node = ragged_ranges(start, store.num_nodes[graph], num_nodes)
        rows = {"copies": copy, "nodes": node}
        known = self.encodings.items()
        return found.assume(encodings={k: v.at(rows[v.axis]) for k, v in known})


def cache_subgraphs(store: GraphStore, extractor: Extractor) -> CachedSubgraphs:
    """Extract the rooted subgraphs of every graph of a store and cache them."""
    inner = chunk_cuts(store.num_nodes, CHUNK)
    if isinstance(extractor, WithEncodings):
        inner = chunk_cuts(store.num_nodes.square(), PAIR_CHUNK)
    cuts = [0, *inner, len(store)]
    found = [_extract(store.subset(slice(*ends)), extractor) for ends in pairwise(cuts)]
    parts, encodings = zip(*found, strict=True)
    joined = [torch.cat(part, dim=-1) for part in zip(*parts, strict=True)]
    encoded = {
        name: first._replace(rows=torch.cat([part[name].rows for part in encodings]))
        for name, first in encodings[0].items()
    }
    return CachedSubgraphs(store, *joined, encodings=encoded)


def _extract(
    store: GraphStore, extractor: Extractor
) -> tuple[tuple[Tensor, ...], dict[Hashable, Encoded]]:
    """Return the tensors of `CachedSubgraphs`, in field order, and the encodings."""
    whole = store.union()
    subs = extract(extractor, whole.edge_index, whole.num_nodes, batch=whole.batch)
    of = whole.batch[subs.root[subs.subgraph]]
    of_edge = of[subs.edge_index[1]]
    copies = counts_of(of, len(store))
    shift = store.node_ptr[of]
    hop = subs.hop.long()
    max_hop = torch.full_like(copies, -1).scatter_reduce_(0, of, hop, "amax")
    fields = (
        copies,
        counts_of(of_edge, len(store)),
        max_hop,
        narrow(subs.node - shift),
        narrow(subs.subgraph - shift),
        narrow(subs.hop),
        narrow(subs.edge_index - pointers(copies)[of_edge]),
        narrow(subs.edge - store.edge_ptr[of_edge]),
    )
    return fields, extracted_encodings(subs)


def cache_if_small(
    store: GraphStore, extractor: Extractor, limit: int = CACHE_BYTES
) -> CachedSubgraphs | None:
    """Cache subgraphs; return None if they are random or need over `limit` bytes."""
    if extractor.random or not len(store):
        return None
    count = min(SAMPLE, len(store))
    sampled = torch.linspace(0, len(store) - 1, count, device="cpu").long()
    try:
        sample = cache_subgraphs(store.subset(sampled), extractor)
        if sample.int32_bytes * len(store) / sampled.numel() > limit:
            return None
        return cache_subgraphs(store, extractor)
    except SizeError:
        # A batch is smaller than the sample and the store, so it may be small enough.
        return None
