"""Rooted subgraphs that are extracted slice by slice, and never all at once."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from gnnak.errors import OptionError
from gnnak.graphs.adjacency import Neighbors, incoming
from gnnak.graphs.ragged import chunk_cuts
from gnnak.subgraphs.advice import can_choose_roots
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.encodings import without_encodings
from gnnak.subgraphs.extractors import Extractor, extract
from gnnak.subgraphs.pagerank import PageRankNeighbors
from gnnak.subgraphs.reach import count_walks
from gnnak.subgraphs.rooted import RootedSubgraphs


def can_stream(extractor: Extractor) -> bool:
    """Return whether an extractor can extract slices, always with the same result."""
    return not extractor.random and can_choose_roots(extractor)


class LazySlices:
    """Slices of rooted subgraphs; `slices[i]` builds slice i when it is needed."""

    cuts: list[int]
    """The first root of each slice, and then the number of roots."""

    def __getitem__(self, index: int) -> RootedSubgraphs:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def __iter__(self) -> Iterator[RootedSubgraphs]:
        return (self[index] for index in range(len(self)))


class Stream(LazySlices):
    """Slices of up to about `max_copies` node copies; `stream[i]` extracts slice i."""

    def __init__(
        self, extractor: Extractor, edge_index: Tensor, num_nodes: int, max_copies: int
    ) -> None:
        if not can_stream(extractor):
            told = f"{extractor!r} cannot extract the subgraphs of some roots, or is"
            raise OptionError(f"{told} random; use gnnak.EgoNets.")
        self.extractor, self.edge_index = extractor, edge_index
        self.neighbors = incoming(edge_index, num_nodes)
        largest = largest_sizes(extractor, self.neighbors)
        self.cuts = sorted({0, num_nodes, *chunk_cuts(largest, max_copies)})

    def __getitem__(self, index: int) -> RootedSubgraphs:
        first, stop = self.cuts[index : index + 2]
        roots = torch.arange(first, stop, device=self.edge_index.device)
        if isinstance(self.extractor, EgoNets):
            return self.extractor.of_roots(self.neighbors, roots)
        size = self.neighbors.num_nodes
        return extract(self.extractor, self.edge_index, size, roots=roots)


def largest_sizes(extractor: Extractor, neighbors: Neighbors) -> Tensor:
    """Return an upper bound of the number of nodes of each subgraph, [n]."""
    size, device = neighbors.num_nodes, neighbors.node.device
    extractor = without_encodings(extractor)
    if isinstance(extractor, PageRankNeighbors):
        return torch.full((size,), min(extractor.size, size), device=device)
    if not isinstance(extractor, EgoNets):
        return torch.full((size,), size, device=device)
    most = float(size)
    if extractor.max_neighbors is not None:
        most = min(1 + extractor.num_hops * extractor.max_neighbors, most)
    return count_walks(neighbors, extractor.num_hops, most).long()


@dataclass(frozen=True, eq=False, repr=False)
class StreamedSubgraphs(RootedSubgraphs):
    """Rooted subgraphs in slices; only one slice at a time is in memory."""

    parts: LazySlices = field(kw_only=True)

    @cached_property
    def num_containing(self) -> Tensor:
        """[n]: the number of subgraphs that contain each node."""
        count = torch.zeros_like(self.root)
        for part in self.parts:
            count += torch.bincount(part.node, minlength=count.numel())
        return count


def streamed(
    extractor: Extractor, edge_index: Tensor, num_nodes: int, max_copies: int
) -> StreamedSubgraphs:
    """Return the subgraphs of all nodes as slices of about `max_copies` node copies."""
    root = torch.arange(num_nodes, device=edge_index.device)
    none, ends = root[:0], edge_index.new_empty(2, 0)
    found = StreamedSubgraphs(
        *(root, none, none, none, ends, none),
        num_nodes=num_nodes,
        num_edges=edge_index.size(1),
        parts=Stream(extractor, edge_index, num_nodes, max_copies),
    )
    return found.assume(hop_range=(-1, extractor.max_hops), in_order=True)
