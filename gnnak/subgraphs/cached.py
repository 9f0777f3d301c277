"""The rooted subgraphs of a whole store, extracted once, cut into batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from gnnak.graphs.indices import Indices, indices_at
from gnnak.graphs.narrow import narrow
from gnnak.graphs.ragged import chunk_cuts, counts_of, pointers, ragged_ranges
from gnnak.graphs.store import GraphStore
from gnnak.subgraphs.extractors import Extractor
from gnnak.subgraphs.rooted import RootedSubgraphs

CACHE_BYTES = 2**31
"""How much memory the kept subgraphs of a store may take."""
SAMPLE = 64
CHUNK = 2**18
"""About how many nodes are extracted from at a time."""


@dataclass(frozen=True, eq=False, repr=False)
class CachedSubgraphs:
    """A rooted subgraph for every node of every graph of a store.

    `kept[indices]` is what extraction from `store[indices]` gives, put together
    without a loop over graphs and without extracting anything. All counts inside a
    graph start at 0 and are `narrow`: a fraction of the memory.
    """

    store: GraphStore
    """The graphs, on the same device."""
    num_copies: Tensor
    """[g], int64: node copies of each graph."""
    num_edge_copies: Tensor
    """[g], int64: edge copies of each graph."""
    node: Tensor
    """[m]: the node each copy stands for."""
    subgraph: Tensor
    """[m]: the subgraph each copy is in; it has the number of its root."""
    hop: Tensor
    """[m]: as in `RootedSubgraphs`."""
    edge_index: Tensor
    """[2, f]: edges between the copies of one graph."""
    edge: Tensor
    """[f]: the edge each edge copy stands for."""

    @cached_property
    def copy_ptr(self) -> Tensor:
        """[g + 1]: where the copies of each graph start."""
        return pointers(self.num_copies)

    @cached_property
    def edge_copy_ptr(self) -> Tensor:
        """[g + 1]: where the edge copies of each graph start."""
        return pointers(self.num_edge_copies)

    @cached_property
    def counts(self) -> Tensor:
        """[4, g]: nodes, edges and copies of both, of each graph, on the host."""
        copies = torch.stack([self.num_copies, self.num_edge_copies])
        return torch.cat([self.store.counts, copies.cpu()])

    @property
    def num_values(self) -> int:
        """How many numbers they are."""
        return sum(tensor.numel() for tensor in self._fields)

    @property
    def num_bytes(self) -> int:
        """Memory they take."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._fields)

    @property
    def _fields(self) -> tuple[Tensor, ...]:
        return self.node, self.subgraph, self.hop, self.edge_index, self.edge

    def __getitem__(self, indices: Indices) -> RootedSubgraphs:
        """The subgraphs of `store[indices]`."""
        store = self.store
        host, graph = indices_at(indices, len(store), store.device)
        num_nodes, num_edges, *totals = self.counts[:, host].sum(dim=1).tolist()
        first_node = pointers(store.num_nodes[graph])
        first_edge = pointers(store.num_edges[graph])
        copies, edge_copies = self.num_copies[graph], self.num_edge_copies[graph]
        of, copy = ragged_ranges(self.copy_ptr[graph], copies, totals[0])
        shift = first_node[of]
        start = self.edge_copy_ptr[graph]
        of_edge, edge_copy = ragged_ranges(start, edge_copies, totals[1])
        return RootedSubgraphs(
            torch.arange(num_nodes, device=store.device),
            self.node[copy] + shift,
            self.subgraph[copy] + shift,
            self.hop[copy].long(),
            self.edge_index[:, edge_copy] + pointers(copies)[of_edge],
            self.edge[edge_copy] + first_edge[of_edge],
            num_nodes,
            num_edges,
        )

    def __repr__(self) -> str:
        return (
            f"CachedSubgraphs(graphs={len(self.store)}, node_copies={self.node.numel()}, "
            f"edge_copies={self.edge.numel()}, MB={self.num_bytes / 2**20:.0f})"
        )


def cache_subgraphs(store: GraphStore, extractor: Extractor) -> CachedSubgraphs:
    """Extract the subgraphs of every graph of a store; the same ones at every use.

    >>> from gnnak.graphs import parse_graph6
    >>> from gnnak.subgraphs import EgoNets
    >>> cache_subgraphs(parse_graph6("C~"), EgoNets(1))
    CachedSubgraphs(graphs=1, node_copies=16, edge_copies=48, MB=0)
    """
    cuts = [0, *chunk_cuts(store.num_nodes, CHUNK), len(store)]
    parts = [_extract(store.subset(slice(*ends)), extractor) for ends in pairwise(cuts)]
    joined = [torch.cat(part, dim=-1) for part in zip(*parts, strict=True)]
    return CachedSubgraphs(store, *joined)


def _extract(store: GraphStore, extractor: Extractor) -> tuple[Tensor, ...]:
    """The fields of `CachedSubgraphs` for a few graphs."""
    whole = store.union()
    subs = extractor(whole.edge_index, whole.num_nodes)
    of = whole.batch[subs.root[subs.subgraph]]
    of_edge = of[subs.edge_index[1]]
    copies = counts_of(of, len(store))
    shift = store.node_ptr[of]
    return (
        copies,
        counts_of(of_edge, len(store)),
        narrow(subs.node - shift),
        narrow(subs.subgraph - shift),
        narrow(subs.hop),
        narrow(subs.edge_index - pointers(copies)[of_edge]),
        narrow(subs.edge - store.edge_ptr[of_edge]),
    )


def cache_if_small(
    store: GraphStore, extractor: Extractor, limit: int = CACHE_BYTES
) -> CachedSubgraphs | None:
    """The same, or None: for random subgraphs, and where they would not fit.

    Args:
        store: The graphs.
        extractor: What makes the subgraphs.
        limit: Bytes they may take, estimated from a few graphs of the store.
    """
    if extractor.random or not len(store):
        return None
    few = torch.linspace(0, len(store) - 1, min(SAMPLE, len(store))).long()
    sample = cache_subgraphs(store.subset(few), extractor)
    # Those of a few graphs may be narrower than those of all.
    if 4 * sample.num_values * len(store) / few.numel() > limit:
        return None
    return cache_subgraphs(store, extractor)
