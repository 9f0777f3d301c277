"""Choose how many batches form a window, from a memory budget.

A window is a run of consecutive batches that are assembled together. The memory of a
window is estimated before it is assembled, as a sum over its graphs.
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
kernels, so it assembles several batches at once; a CPU gains nothing from that, and
with one byte every window is a single batch."""
EXTRACTION_FACTOR = 8
"""Factor on the budget if subgraphs are extracted anew in each epoch: extraction is
slow, and gains more from large windows."""
MIN_SAMPLED_FRACTION = 1 / 4
"""Lower bound on the fraction of subgraphs that counts as sampled in the estimate."""
SAMPLE_GRAPHS = 32
"""Number of graphs from which the size of subgraphs is estimated."""
WINDOW_PAIRS = 2**24
"""Budget of a window in pairs of nodes, for strategies that need their distances."""


def memory_shares(
    store: GraphStore,
    cached: CachedSubgraphs | None,
    drop: SubgraphDrop | None = None,
    fraction: float = 1.0,
) -> Tensor:
    """Return the share of a window's memory budget that each graph takes, [g].

    Memory is the number of int64 entries in the graphs, the subgraphs and their
    `Groups`. Farthest sampling adds the distances between all pairs of nodes. The
    result is on the host.

    Args:
        store: The graphs.
        cached: Their cached rooted subgraphs; None = batches have no subgraphs.
        drop: Samples the subgraphs; None = all are used.
        fraction: Fraction of the subgraphs that is sampled; see `sampled_fraction`.
    """
    entries = (4 * (store.num_nodes + store.num_edges)).double()
    if drop is not None:
        # The filling: about one entry per node.
        entries += 10 * store.num_nodes
    if cached is not None:
        # Batches have all subgraphs for a short time, before some are dropped.
        part = max(fraction, MIN_SAMPLED_FRACTION)
        entries += part * _entries(cached.num_copies, cached.num_edge_copies)
    return _add_pairs(8 * entries / _limit(store), store, drop)


def sampled_fraction(
    store: GraphStore,
    cached: CachedSubgraphs,
    subgraphs_of: Callable[[GraphBatch, Tensor], RootedSubgraphs | None],
    most: int = SAMPLE_GRAPHS,
) -> float:
    """Estimate from a few graphs the fraction of the subgraphs that is sampled.

    Args:
        store: The graphs.
        cached: Their cached rooted subgraphs.
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
    """Estimate `memory_shares` where subgraphs are extracted in each epoch, [g].

    The subgraphs of a few graphs are extracted; every graph of the store counts as the
    mean of these.

    Args:
        store: The graphs.
        subgraphs_of: Extracts the subgraphs of a batch, given the batch and the
            positions of its graphs in the store.
        drop: Samples the subgraphs; None = all are used.
        most: Largest number of graphs to use.
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
    """Return the positions of a few graphs, evenly spaced over the store."""
    count = min(SAMPLE_GRAPHS, most, len(store))
    return torch.arange(count, device=store.device) * len(store) // max(count, 1)


def _entries(copies: Count, edge_copies: Count) -> Count:
    """Return the number of tensor entries of subgraphs and their `Groups`."""
    return 6 * copies + 5 * edge_copies


def _limit(store: GraphStore) -> int:
    return WINDOW_BYTES.get(store.device.type, WINDOW_BYTES["cpu"])


def _add_pairs(share: Tensor, store: GraphStore, drop: SubgraphDrop | None) -> Tensor:
    """Add the share of the distances to `share`, in place, and move it to the host."""
    if drop is not None and drop.strategy == "farthest":
        share += store.num_nodes.double().square() / WINDOW_PAIRS
    return share.cpu()


def into_windows(batches: Iterable[Tensor], share: Tensor) -> Iterator[list[Tensor]]:
    """Group consecutive batches into windows that fit the memory budget.

    A batch that exceeds the budget alone becomes a window with one batch.

    Args:
        batches: The positions of the graphs of each batch.
        share: Share of the budget that each graph takes, [g].

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
