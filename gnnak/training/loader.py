"""Batches of a store, epoch by epoch, each process with its share of every batch."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from gnnak.graphs import GraphStore
from gnnak.subgraphs.kept import KeptSubgraphs
from gnnak.training.clock import Clock
from gnnak.training.items import Item


class BatchSampler(Sampler[Tensor]):
    """Positions of the graphs of each batch, [b].

    Every process cuts the same batches and takes its share of each, so that together
    they see what one process would. A last batch with fewer than two graphs a process
    joins the one before it: BatchNorm has no statistics of a single graph.

    Args:
        positions: The graphs, [g].
        batch_size: Graphs a batch, over all processes.
        order: Seeds the order of the coming epoch; None = as they stand.
        rank: Number of this process.
        processes: How many there are.
    """

    def __init__(
        self,
        positions: Tensor,
        batch_size: int,
        order: Callable[[], int] | None = None,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        self.positions = positions
        self.order = order
        self.rank, self.processes = rank, processes
        self.sizes = _batch_sizes(positions.numel(), batch_size, 2 * processes)

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[Tensor]:
        positions = self.positions
        if self.order is not None:
            generator = torch.Generator().manual_seed(self.order())
            positions = positions[torch.randperm(len(positions), generator=generator)]
        for batch in positions.split(self.sizes):
            yield batch.tensor_split(self.processes)[self.rank]


def epoch_seed(seed: int, epoch: int, rank: int = 0) -> int:
    """The seed of one epoch in one process: a run can so be taken up at any epoch."""
    mixed = (seed * 1_000_003 + epoch) * 1_000_003 + rank
    return mixed % (2**63 - 1)


def make_loader(
    store: GraphStore,
    sampler: BatchSampler,
    clock: Clock | None = None,
    kept: KeptSubgraphs | None = None,
) -> DataLoader:
    """A loader of `Item`s, put together on the store's device.

    Args:
        store: The graphs.
        sampler: Says which of them come together.
        clock: Told the seconds it takes; None = nobody is told.
        kept: Their rooted subgraphs, where these are kept.
    """
    # With a generator of its own, a loader draws nothing from PyTorch's.
    return DataLoader(
        _Batches(store, clock, kept),
        sampler=sampler,
        batch_size=None,
        generator=torch.Generator(),
    )


class _Batches(Dataset[Item]):
    """A store whose items are whole batches."""

    def __init__(
        self, store: GraphStore, clock: Clock | None, kept: KeptSubgraphs | None
    ) -> None:
        self.store, self.clock, self.kept = store, clock, kept

    def __getitem__(self, positions: Tensor) -> Item:
        with self.clock.time("data") if self.clock else nullcontext():
            subgraphs = None if self.kept is None else self.kept[positions]
            return Item(self.store[positions], subgraphs)


def _batch_sizes(count: int, size: int, least: int) -> list[int]:
    sizes = [size] * (count // size) + [count % size] * bool(count % size)
    if len(sizes) > 1 and sizes[-1] < least:
        last = sizes.pop()
        sizes[-1] += last
    return sizes
