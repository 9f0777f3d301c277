"""Choose how many batches form a window, from a memory budget.

A window is several consecutive batches that are assembled together. The memory of a
window is estimated before the window is assembled, as a sum over its graphs. Node
copies (nodes as they occur in one rooted subgraph) and edge copies (edges as they occur
in one rooted subgraph) take most of the memory.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

from gnnak.graphs import GraphBatch, GraphStore
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.cached import CachedSubgraphs
from gnnak.subgraphs.rooted import RootedSubgraphs

Count = TypeVar("Count", int, Tensor)

WINDOW_BYTES = {"cuda": 2**24, "cpu": 1}
"""Memory budget of a window in bytes, by device type. A GPU is slow at many small
kernels, so several batches are assembled at once; a CPU gains nothing from that, so a
budget of one byte makes every window a single batch."""
WINDOW_BATCHES = 4
"""Number of batches that a window should have if subgraphs are cached."""
MAX_FACTOR = 4
"""The memory budget of a window is multiplied by at most this factor, to make room for
`WINDOW_BATCHES` batches."""
EXTRACTION_FACTOR = 8
"""The memory budget of a window is multiplied by this factor if subgraphs are extracted
in each epoch. Extraction gains more from large windows than loading from a cache."""
MIN_SAMPLED_FRACTION = 1 / 4
"""The memory estimate assumes that SubgraphDrop samples at least this fraction of the
subgraphs."""
SAMPLE_GRAPHS = 32
"""Number of graphs, at most, from which the memory of all subgraphs is estimated."""
WINDOW_PAIRS = 2**24
"""Largest number of node pairs in a window (several consecutive batches). The limit
applies only if SubgraphDrop uses farthest-point sampling, which needs the distance of
every pair of nodes of a graph."""


def memory_shares(
    store: GraphStore,
    cached: CachedSubgraphs | None,
    drop: SubgraphDrop | None = None,
    fraction: float = 1.0,
) -> Tensor:
    """Return which fraction of a window's memory budget each of the g graphs takes.

    A window is several consecutive batches that are assembled together. Its memory
    contains the graphs, their rooted subgraphs and, if SubgraphDrop uses farthest-point
    sampling, the distances between all pairs of nodes of a graph.

    Args:
        store: The g graphs.
        cached: The cached rooted subgraphs of the graphs; None = batches have no
            subgraphs.
        drop: Samples the subgraphs; None = all subgraphs are used.
        fraction: Fraction of the subgraphs that `drop` samples, as returned by
            `sampled_fraction`.

    Returns:
        The fractions, on the host, [g].
    """
    entries = (4 * (store.num_nodes + store.num_edges)).double()
    if drop is not None:
        # The `Filling`, a sparse matrix that estimates the encodings of dropped roots
        # from sampled ones, has about one entry per node.
        entries += 10 * store.num_nodes
    if cached is not None:
        # For a short time, before some are dropped, all subgraphs are in memory.
        part = max(fraction, MIN_SAMPLED_FRACTION)
        entries += part * _entries(cached.num_copies, cached.num_edge_copies)
    return _add_pairs(8 * entries / _limit(store), store, drop)


def for_several_batches(share: Tensor, batch_size: int) -> Tensor:
    """Enlarge the memory budget of a window if it is too small for several batches.

    A window of several batches needs fewer small kernels per batch. Its memory is small
    compared with the memory of a training step on such a batch.

    Args:
        share: Fraction of the budget that each of the g graphs takes, [g].
        batch_size: Number of graphs of a batch.

    Returns:
        Fraction of the larger budget that each graph takes, [g].

    >>> for_several_batches(torch.tensor([0.1, 0.3]), 4)  # a batch takes 0.8
    tensor([0.0312, 0.0938])
    """
    wanted = WINDOW_BATCHES * batch_size * share.mean()
    return share / wanted.clamp(1, MAX_FACTOR)


def sampled_fraction(
    store: GraphStore,
    cached: CachedSubgraphs,
    subgraphs_of: Callable[[GraphBatch, Tensor], RootedSubgraphs | None],
    most: int = SAMPLE_GRAPHS,
) -> float:
    """Estimate from a few graphs which fraction of the subgraphs SubgraphDrop samples.

    The result is a fraction of the memory of the subgraphs, not of their number.

    Args:
        store: The graphs.
        cached: The cached rooted subgraphs of the graphs.
        subgraphs_of: Returns the sampled subgraphs of a batch, given the batch and the
            positions of its graphs in the store.
        most: Largest number of graphs to use.
    """
    positions = _some_positions(store, most)
    sampled = subgraphs_of(store[positions], positions)
    of_all = cached.num_copies[positions], cached.num_edge_copies[positions]
    count = int(_entries(*of_all).sum())
    if sampled is None or not count:
        return 1.0
    return _entries(sampled.num_copies, sampled.num_edge_copies) / count


def estimated_memory_shares(
    store: GraphStore,
    subgraphs_of: Callable[[GraphBatch, Tensor], RootedSubgraphs | None],
    drop: SubgraphDrop | None = None,
    most: int = SAMPLE_GRAPHS,
) -> Tensor:
    """Estimate which fraction of a window's memory budget each of the g graphs takes.

    Unlike `memory_shares`, this needs no cached subgraphs: it extracts the subgraphs of
    a few graphs, and assumes that every graph takes as much memory as their average.

    Args:
        store: The g graphs.
        subgraphs_of: Extracts the subgraphs of a batch, given the batch and the
            positions of its graphs in the store.
        drop: Samples the subgraphs; None = all subgraphs are used.
        most: Largest number of graphs to extract subgraphs of.

    Returns:
        The fractions, on the host, [g].
    """
    positions = _some_positions(store, most)
    count, graphs = positions.numel(), store[positions]
    entries = 4 * (graphs.num_nodes + graphs.num_edges)
    subgraphs = subgraphs_of(graphs, positions)
    if subgraphs is not None:
        entries += _entries(subgraphs.num_copies, subgraphs.num_edge_copies)
    mean = 8 * entries / max(count, 1) / (EXTRACTION_FACTOR * _limit(store))
    share = torch.full((len(store),), mean, dtype=torch.double, device=store.device)
    return _add_pairs(share, store, drop)


def _some_positions(store: GraphStore, most: int) -> Tensor:
    """Return the positions of at most `most` graphs, evenly spaced over the store."""
    count = min(SAMPLE_GRAPHS, most, len(store))
    return torch.arange(count, device=store.device) * len(store) // max(count, 1)


def _entries(copies: Count, edge_copies: Count) -> Count:
    """Return how many int64 numbers all tensors of rooted subgraphs contain together.

    Args:
        copies: Number of nodes of all subgraphs together.
        edge_copies: Number of edges of all subgraphs together.
    """
    return 6 * copies + 5 * edge_copies


def _limit(store: GraphStore) -> int:
    """Return the memory budget of a window in bytes, for the device of the store."""
    return WINDOW_BYTES.get(store.device.type, WINDOW_BYTES["cpu"])


def _add_pairs(share: Tensor, store: GraphStore, drop: SubgraphDrop | None) -> Tensor:
    """Add the memory of node-to-node distances, if farthest-point sampling is used.

    Args:
        share: For each graph, the fraction of the memory budget of a window (batches
            that are assembled together) that the graph takes without the distances;
            changed in place.
        store: The graphs.
        drop: Samples the subgraphs; None = all subgraphs are used.

    Returns:
        The fractions that the graphs take with the distances, in CPU memory.
    """
    if drop is not None and drop.strategy == "farthest":
        share += store.num_nodes.double().square() / WINDOW_PAIRS
    return share.cpu()


def into_windows(batches: Iterable[Tensor], share: Tensor) -> Iterator[list[Tensor]]:
    """Group consecutive batches into windows that fit the memory budget.

    A window is a list of consecutive batches that are assembled together. A batch that
    exceeds the budget becomes a window by itself.

    Args:
        batches: For each batch, the positions of its graphs in the store.
        share: Fraction of the budget that each of the g graphs of the store takes, [g].

    >>> import torch
    >>> batches = torch.arange(6).split(2)
    >>> [len(window) for window in into_windows(batches, torch.full((6,), 0.2))]
    [2, 1]
    """
    window: list[Tensor] = []
    full = 0.0
    for batch in batches:
        more = float(share[batch].sum())
        if window and full + more > 1:
            yield window
            window, full = [], 0.0
        window.append(batch)
        full += more
    if window:
        yield window
