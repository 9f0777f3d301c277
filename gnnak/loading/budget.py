"""How many batches make a window: as many as fit into a share of the memory."""

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
"""Bytes of indices in a window, by kind of device: many small steps are what a GPU is
slow at; elsewhere one batch at a time is as fast."""
EXTRACTED = 8
"""How many times as many there may be where extraction, which is slow, is a part."""
LEAST_PART = 1 / 4
"""As what part of the kept subgraphs those that are drawn count at least."""
SAMPLE = 32
"""Graphs that tell how large subgraphs are."""
WINDOW_PAIRS = 2**24
"""Pairs of nodes in a window, where their distances are wanted."""


def shares(
    store: GraphStore,
    kept: CachedSubgraphs | None,
    drop: SubgraphDrop | None = None,
    drawn: float = 1.0,
) -> Tensor:
    """What share of a window each graph takes, [g], on the host.

    Indices are counted: fields of the records, and `Groups`. Sampling the farthest
    roots needs the distances of all pairs of nodes of a graph beside.

    Args:
        store: The graphs.
        kept: Their rooted subgraphs, where they come along.
        drop: Which of these are drawn; None = all are used.
        drawn: About what part of them that is; see `sampled_fraction`.
    """
    numbers = (4 * (store.num_nodes + store.num_edges)).double()
    if drop is not None:
        # What stands in for those that are not drawn: about an entry a node.
        numbers += 10 * store.num_nodes
    if kept is not None:
        # All of them are there, if only for a while, before some are dropped.
        part = max(drawn, LEAST_PART)
        numbers += part * _numbers(kept.num_copies, kept.num_edge_copies)
    return _with_pairs(8 * numbers / _limit(store), store, drop)


def sampled_fraction(
    store: GraphStore,
    kept: CachedSubgraphs,
    subgraphs_of: Callable[[GraphBatch, Tensor], RootedSubgraphs | None],
    most: int = SAMPLE,
) -> float:
    """What part of the kept subgraphs is drawn, judging by a few graphs.

    Args:
        store: The graphs.
        kept: Their rooted subgraphs.
        subgraphs_of: Draws from those of a batch, given with its positions.
        most: How many graphs there may be in a batch.
    """
    positions = _few(store, most)
    drawn = subgraphs_of(store[positions], positions)
    of_all = kept.num_copies[positions], kept.num_edge_copies[positions]
    count = int(_numbers(*of_all).sum())
    if drawn is None or not count:
        return 1.0
    return _numbers(drawn.num_copies, drawn.num_edge_copies) / count


def expected_shares(
    store: GraphStore,
    subgraphs_of: Callable[[GraphBatch, Tensor], RootedSubgraphs | None],
    drop: SubgraphDrop | None = None,
    most: int = SAMPLE,
) -> Tensor:
    """The same where subgraphs are not kept: every graph counts as the mean of a few.

    Args:
        store: The graphs.
        subgraphs_of: Makes the subgraphs of a batch, given with its positions.
        drop: Which of all subgraphs these are; None = all.
        most: How many graphs there may be in a batch.
    """
    positions = _few(store, most)
    count, graphs = positions.numel(), store[positions]
    numbers = 4 * (graphs.num_nodes + graphs.num_edges)
    subgraphs = subgraphs_of(graphs, positions)
    if subgraphs is not None:
        numbers += _numbers(subgraphs.num_copies, subgraphs.num_edge_copies)
    mean = 8 * numbers / max(count, 1) / (EXTRACTED * _limit(store))
    share = torch.full((len(store),), mean, dtype=torch.double, device=store.device)
    return _with_pairs(share, store, drop)


def _few(store: GraphStore, most: int) -> Tensor:
    """The positions of a few graphs, spread over all, on the store's device."""
    count = min(SAMPLE, most, len(store))
    return torch.arange(count, device=store.device) * len(store) // max(count, 1)


def _numbers(copies: Count, edge_copies: Count) -> Count:
    """How many the fields and groups of rooted subgraphs have."""
    return 6 * copies + 5 * edge_copies


def _limit(store: GraphStore) -> int:
    return WINDOW_BYTES.get(store.device.type, WINDOW_BYTES["cpu"])


def _with_pairs(share: Tensor, store: GraphStore, drop: SubgraphDrop | None) -> Tensor:
    if drop is not None and drop.strategy == "farthest":
        share += store.num_nodes.double().square() / WINDOW_PAIRS
    return share.cpu()


def into_windows(batches: Iterable[Tensor], share: Tensor) -> Iterator[list[Tensor]]:
    """Put batches together that fit into a window; one that does not comes alone.

    Args:
        batches: The positions of the graphs of each batch.
        share: What share of a window each graph takes, [g].

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
