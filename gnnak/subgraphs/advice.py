"""Which subgraphs of a large graph would fit into memory, if all egonets do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from gnnak.graphs.adjacency import Neighbors, incoming
from gnnak.subgraphs.capped import capped_egonets_of
from gnnak.subgraphs.copy_limit import BYTES_PER_COPY, MARGIN, CopyLimit
from gnnak.subgraphs.induce import induced_edges
from gnnak.subgraphs.neighborhood import Hop, sample_neighborhood
from gnnak.subgraphs.reach import decoded, reach
from gnnak.subgraphs.sizes import CHUNK, Sizes, sampled_sizes
from gnnak.subgraphs.walks import walk_subgraphs

SECONDS = 0.3
"""Time to estimate the size of an alternative to egonets that do not fit."""
WHOLE_SECONDS = 0.8
"""Time to estimate the size of all egonets."""
SAMPLE = 64
"""Largest number of roots whose subgraphs are extracted to estimate the size of an
alternative; for the size of all egonets, four times as many."""
LEAST_EDGES = 1 << 15
"""Egonets of graphs with fewer edges are not checked in advance."""
CAPS = (50, 20, 10, 5)
"""Values of `max_neighbors` that are tried."""
WALKS = (10, 5)
"""Length and number of the walks that are tried."""
MOST_EDGES = 1 << 22
"""Walks are tried only on graphs with at most this many edges: they sort all edges."""
SLICES = (1_000_000, 100_000, 10_000)
"""Values of `max_copies` that are tried."""
SCOPE = (10, 10)
"""Values of `num_neighbors` that are tried."""
SEEDS = (1024, 256, 64)
"""Values of `batch_size` that are tried."""
COVERAGE = 3
"""Number of sampled subgraphs that contain each node, with SubgraphDrop."""

SLICE = " a slice"
"""What the memory of `max_copies` is for."""
Alternative = tuple[str, str, Sizes]
"""The options of an alternative, what its memory is for, and its sizes."""
Cost = Callable[[Sizes, bool], float]
"""Returns the bytes that subgraphs of some sizes need. The second argument says whether
only one layer at a time is in memory, as with `max_copies`."""


def check_egonets(neighbors: Neighbors, num_hops: int, limit: CopyLimit) -> None:
    """Raise `SizeError`, with advice, if all egonets are expected not to fit.

    The check takes at most about two seconds; egonets of small graphs pass at once.
    """
    if limit.given is not None or neighbors.edge.numel() < LEAST_EDGES:
        return
    if not limit.is_below(_bound(neighbors, num_hops)):
        return
    found = egonet_sizes(neighbors, num_hops)
    if not limit.is_below(found.total / MARGIN):
        return
    free = limit.count * BYTES_PER_COPY
    told = advice(neighbors, num_hops, found, free, extraction_bytes)
    limit.check(found.total, "about", advice=told)


def extraction_bytes(sizes: Sizes, _: bool = False) -> float:
    """Return the memory that extraction needs."""
    return BYTES_PER_COPY * sizes.total


def _bound(neighbors: Neighbors, num_hops: int) -> float:
    """Return an upper bound of all copies: the walks of up to `num_hops` + 1 steps."""
    size = neighbors.num_nodes
    target = neighbors.key // max(size, 1)
    walks = torch.ones(size, dtype=torch.double, device=target.device)
    total = walks.sum()
    for _ in range(min(num_hops + 1, size)):
        before = walks.index_select(0, neighbors.node)
        walks = torch.zeros_like(walks).index_add_(0, target, before)
        total += walks.clamp(max=size + target.numel()).sum()
    return float(total)


def egonet_sizes(
    neighbors: Neighbors, num_hops: int, seconds: float = WHOLE_SECONDS
) -> Sizes:
    """Estimate the number of copies of all egonets."""

    def measure(roots: Tensor) -> tuple[int, int]:
        limit = CopyLimit(CHUNK, roots.device)
        key, _ = reach(roots, neighbors, num_hops, limit)
        subgraph, node = decoded(key, max(neighbors.num_nodes, 1))
        _, edge = induced_edges(node, subgraph, roots.numel(), neighbors, limit)
        return node.numel(), edge.numel()

    return _sampled(measure, neighbors, 4 * SAMPLE, seconds)


def _sampled(
    measure: Callable[[Tensor], tuple[int, int]],
    neighbors: Neighbors,
    most: int = SAMPLE,
    seconds: float = SECONDS,
) -> Sizes:
    size, device = neighbors.num_nodes, neighbors.node.device
    return sampled_sizes(measure, size, device, most, seconds)


def advice(
    neighbors: Neighbors,
    num_hops: int,
    whole: Sizes,
    free: float,
    cost: Cost,
    drop: bool = False,
) -> str:
    """Return a text that names alternatives which fit into `free` bytes.

    `whole` are the sizes of all egonets. `drop` says whether SubgraphDrop would help:
    it saves memory in training, but not in extraction.
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
    """Yield groups of alternatives, in each the best one first."""
    yield _caps(neighbors, num_hops)
    if neighbors.edge.numel() <= MOST_EDGES:
        yield _walks(neighbors)
    if drop:
        kept = min(COVERAGE * neighbors.num_nodes / max(whole.copies, 1), 1)
        yield iter([("SubgraphDrop, the suffix -s", "", whole.times(kept))])
    yield (
        (f"max_copies={most}", SLICE, whole.times(most / max(whole.copies, 1)))
        for most in SLICES
        if most < whole.copies
    )
    yield _scopes(neighbors, num_hops)


def _caps(neighbors: Neighbors, num_hops: int) -> Iterator[Alternative]:
    for most in CAPS:

        def measure(roots: Tensor, most: int = most) -> tuple[int, int]:
            options = neighbors, num_hops, most, 0, CHUNK
            found = capped_egonets_of(roots, *options)
            return found.num_copies, found.num_edge_copies

        found = _sampled(measure, neighbors, seconds=SECONDS / len(CAPS))
        yield f"EgoNets({num_hops}, max_neighbors={most})", "", found


def _walks(neighbors: Neighbors) -> Iterator[Alternative]:
    size = neighbors.num_nodes
    edges = torch.stack([neighbors.node, neighbors.key // max(size, 1)])

    def measure(roots: Tensor) -> tuple[int, int]:
        random = torch.Generator(roots.device).manual_seed(0)
        found = walk_subgraphs(
            edges, size, *WALKS, generator=random, copy_limit=CHUNK, roots=roots
        )
        return found.num_copies, found.num_edge_copies

    found = _sampled(measure, neighbors)
    yield f"RandomWalks({WALKS[0]}, {WALKS[1]})", "", found


def _scopes(neighbors: Neighbors, num_hops: int) -> Iterator[Alternative]:
    """Estimate the egonets in the scopes of a `RootLoader`."""
    hops = [Hop(neighbors, most) for most in SCOPE]

    def measure(roots: Tensor) -> tuple[int, int]:
        options = {"per_seed": True, "induced": True}
        found = sample_neighborhood(roots, neighbors, hops, **options)
        inside = incoming(found.edge_index, found.node.numel())
        every = torch.arange(inside.num_nodes, device=roots.device)
        limit = CopyLimit(CHUNK, roots.device)
        key, _ = reach(every, inside, num_hops, limit, all_roots=True)
        subgraph, node = decoded(key, max(inside.num_nodes, 1))
        _, edge = induced_edges(node, subgraph, every.numel(), inside, limit)
        return node.numel(), edge.numel()

    found = _sampled(measure, neighbors)
    for seeds in SEEDS:
        part = found.times(seeds / max(neighbors.num_nodes, 1))
        name = f"gnnak.RootLoader with batch_size={seeds}, mode='scope' and "
        yield f"{name}num_neighbors={list(SCOPE)}", " a batch", part
