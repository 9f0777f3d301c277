"""Estimate the size of all subgraphs; give advice if they do not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from inspect import signature
from time import monotonic
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.errors import SizeError
from gnnak.graphs.adjacency import Neighbors, incoming
from gnnak.subgraphs.capped import capped_egonets_of
from gnnak.subgraphs.copy_limit import BYTES_PER_COPY, MARGIN, CopyLimit, Limited
from gnnak.subgraphs.neighborhood import Hop, sample_neighborhood
from gnnak.subgraphs.reach import count_walks, egonets_of
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.walks import walk_subgraphs

CHUNK = 1 << 22
"""Largest number of copies that are extracted at a time. If a single subgraph has more
copies, the estimate assumes that it has this many."""


Find = Callable[[Tensor], RootedSubgraphs]
"""Returns the subgraphs of some roots, [s]."""


class Sizes(NamedTuple):
    """Estimated numbers of node copies and edge copies in all subgraphs of a graph."""

    copies: float
    edge_copies: float
    roots: int = 0
    """Number of random roots whose subgraphs were extracted for the estimate."""

    @property
    def total(self) -> float:
        """Node copies and edge copies together."""
        return self.copies + self.edge_copies

    def times(self, factor: float) -> Sizes:
        """Multiply both numbers of copies by `factor`."""
        return Sizes(self.copies * factor, self.edge_copies * factor, self.roots)


def can_choose_roots(extractor: Callable[..., RootedSubgraphs]) -> bool:
    """Return whether an extractor can extract the subgraphs of some roots only."""
    return "roots" in signature(extractor).parameters


def estimated_sizes(
    extractor: Callable[..., RootedSubgraphs],
    edge_index: Tensor,
    num_nodes: int,
    most: int = 1000,
    seconds: float | None = None,
) -> Sizes:
    """Estimate how many node copies and edge copies an extractor's subgraphs have."""
    if isinstance(extractor, Limited):
        extractor = replace(extractor, copy_limit=CHUNK)
    random = torch.Generator(edge_index.device).manual_seed(0)

    def find(roots: Tensor) -> RootedSubgraphs:
        return extractor(edge_index, num_nodes, random, roots=roots)

    return sampled_sizes(find, num_nodes, edge_index.device, most, seconds)


def sampled_sizes(
    find: Find, num_nodes: int, device: torch.device, most: int, seconds: float | None
) -> Sizes:
    """Estimate sizes from the subgraphs of up to `most` roots, in about `seconds`."""
    began, generator = monotonic(), torch.Generator().manual_seed(0)
    order = torch.randperm(num_nodes, generator=generator, device="cpu")[:most]
    order = order.to(device)
    copies = edge_copies = done = 0
    count = 1
    while done < order.numel():
        roots = order[done : done + count]
        try:
            subgraphs = find(roots)
            found, edges = subgraphs.num_copies, subgraphs.num_edge_copies
        except SizeError:
            if count > 1:
                count = 1
                continue
            found, edges = 0, CHUNK
        done += roots.numel()
        copies, edge_copies = copies + found, edge_copies + edges
        if seconds is not None and monotonic() - began > seconds / 2:
            break
        # As many roots as are expected to have half of `CHUNK` copies.
        mean = max((copies + edge_copies) / done, 1)
        count = int(min(max(CHUNK / 2 / mean, 1), 2 * count))
    return Sizes(copies, edge_copies, done).times(num_nodes / max(done, 1))


SECONDS = 0.3
"""Seconds to estimate the size of an alternative to egonets that do not fit."""
WHOLE_SECONDS = 0.8
"""Approximate time limit, in seconds, to estimate the size of all egonets."""
SAMPLE = 64
"""Largest number of roots from which the size of an alternative to egonets is
estimated. The size of all egonets is estimated from up to four times as many."""
LEAST_EDGES = 1 << 15
"""Egonets of graphs with fewer edges are not checked in advance."""
MOST_EDGES = 1 << 22
"""Walks, which sort all edges, are suggested only for graphs with at most this many."""
SLICE = " a slice"
"""Suffix of the memory in the advice to set `max_copies`: "2.0 GB a slice"."""
Alternative = tuple[str, str, Sizes]
"""An alternative to egonets: the options to set, the text that follows its memory in
the advice (such as `SLICE`, or empty), and the estimated numbers of copies."""
Cost = Callable[[Sizes, bool], float]
"""Returns the bytes that subgraphs of the given sizes need. If the second argument is
True, only one layer at a time is in memory."""


def check_egonets(neighbors: Neighbors, num_hops: int, limit: CopyLimit) -> None:
    """Raise `SizeError` with advice if all egonets probably do not fit into memory."""
    if limit.given is not None or neighbors.edge.numel() < LEAST_EDGES:
        return
    most = neighbors.num_nodes + neighbors.edge.numel()
    walks = count_walks(neighbors, num_hops + 1, most)
    if not limit.is_below(float(walks.sum())):
        return
    found = egonet_sizes(neighbors, num_hops)
    if not limit.is_below(found.total / MARGIN):
        return
    free = limit.count * BYTES_PER_COPY
    told = advice(neighbors, num_hops, found, free, extraction_bytes)
    limit.check(found.total, "about", advice=told)


def extraction_bytes(sizes: Sizes, _: bool = False) -> float:
    return BYTES_PER_COPY * sizes.total


def egonet_sizes(neighbors: Neighbors, num_hops: int) -> Sizes:
    def find(roots: Tensor) -> RootedSubgraphs:
        return egonets_of(roots, neighbors, num_hops, CopyLimit(CHUNK, roots.device))

    return _sampled(find, neighbors, 4 * SAMPLE, WHOLE_SECONDS)


def _sampled(
    find: Find, neighbors: Neighbors, most: int = SAMPLE, seconds: float = SECONDS
) -> Sizes:
    size, device = neighbors.num_nodes, neighbors.node.device
    return sampled_sizes(find, size, device, most, seconds)


def advice(
    neighbors: Neighbors,
    num_hops: int,
    whole: Sizes,
    free: float,
    cost: Cost,
    drop: bool = False,
) -> str:
    """Return a text with the alternatives to egonets that fit into `free` bytes.

    `whole` are the sizes of all egonets; `drop` says whether to suggest SubgraphDrop.
    """
    told = []
    for group in _alternatives(neighbors, num_hops, whole, drop):
        for options, per, sizes in group:
            if (needed := cost(sizes, per == SLICE)) <= free:
                told.append(f"{options} ({_shown(needed)}{per})")
                break
    if not told:
        return "add memory, or use a smaller graph; see docs/large-graph.md"
    listed = "; ".join(told)
    return f"what would fit: {listed}; see docs/large-graph.md"


def _shown(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"


def _alternatives(
    neighbors: Neighbors, num_hops: int, whole: Sizes, drop: bool
) -> Iterator[Iterator[Alternative]]:
    """Yield groups of alternatives to egonets; the best one in a group comes first."""
    yield _caps(neighbors, num_hops)
    if neighbors.edge.numel() <= MOST_EDGES:
        yield _walks(neighbors)
    if drop:  # with min_coverage=3
        kept = min(3 * neighbors.num_nodes / max(whole.copies, 1), 1)
        yield iter([("SubgraphDrop, the suffix -s", "", whole.times(kept))])
    yield (
        (f"max_copies={most}", SLICE, whole.times(most / max(whole.copies, 1)))
        for most in (1_000_000, 100_000, 10_000)
        if most < whole.copies
    )
    yield _scopes(neighbors, num_hops)


def _caps(neighbors: Neighbors, num_hops: int) -> Iterator[Alternative]:
    caps = partial(capped_egonets_of, neighbors=neighbors, num_hops=num_hops)
    for most in (50, 20, 10, 5):
        find = partial(caps, max_neighbors=most, seed=0, copy_limit=CHUNK)
        found = _sampled(find, neighbors, seconds=SECONDS / 4)
        yield f"EgoNets({num_hops}, max_neighbors={most})", "", found


def _walks(neighbors: Neighbors) -> Iterator[Alternative]:
    size = neighbors.num_nodes
    edges = torch.stack([neighbors.node, neighbors.key // max(size, 1)])

    def find(roots: Tensor) -> RootedSubgraphs:
        random = torch.Generator(roots.device).manual_seed(0)
        return walk_subgraphs(
            edges, size, 10, 5, generator=random, copy_limit=CHUNK, roots=roots
        )

    yield "RandomWalks(10, 5)", "", _sampled(find, neighbors)


def _scopes(neighbors: Neighbors, num_hops: int) -> Iterator[Alternative]:
    """Estimate sizes of egonets in neighbourhoods sampled by a `RootLoader`."""
    hops = [Hop(neighbors, 10), Hop(neighbors, 10)]

    def find(roots: Tensor) -> RootedSubgraphs:
        found = sample_neighborhood(roots, neighbors, hops, per_seed=True, induced=True)
        inside = incoming(found.edge_index, found.node.numel())
        every = torch.arange(inside.num_nodes, device=roots.device)
        limit = CopyLimit(CHUNK, roots.device)
        return egonets_of(every, inside, num_hops, limit, all_roots=True)

    found = _sampled(find, neighbors)
    for seeds in (1024, 256, 64):
        part = found.times(seeds / max(neighbors.num_nodes, 1))
        name = f"gnnak.RootLoader with batch_size={seeds}, mode='scope' and "
        yield f"{name}num_neighbors=[10, 10]", " a batch", part
