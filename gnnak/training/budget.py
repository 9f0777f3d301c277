"""How many batches make a window: as many as fit into a share of the memory."""

from collections.abc import Iterable, Iterator

from torch import Tensor

from gnnak.graphs import GraphStore
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.kept import KeptSubgraphs

WINDOW_BYTES = {"cuda": 2**26, "cpu": 1}
"""Bytes of indices in a window, by kind of device: many small steps are what a GPU is
slow at; elsewhere one batch at a time is as fast."""
WINDOW_PAIRS = 2**24
"""Pairs of nodes in a window, where their distances are wanted."""


def shares(
    store: GraphStore, kept: KeptSubgraphs | None, drop: SubgraphDrop | None = None
) -> Tensor:
    """What share of a window each graph takes, [g], on the host.

    Indices are counted: fields of the records, and `Groups`. Sampling the farthest
    roots needs the distances of all pairs of nodes of a graph beside.

    Args:
        store: The graphs.
        kept: Their rooted subgraphs, where they come along.
        drop: Which of these are drawn; None = all are used.
    """
    numbers = 4 * (store.num_nodes + store.num_edges)
    if kept is not None:
        numbers = numbers + 6 * kept.num_copies + 5 * kept.num_edge_copies
    limit = WINDOW_BYTES.get(store.device.type, WINDOW_BYTES["cpu"])
    share = 8 * numbers.double() / limit
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
