"""Batches of a store, epoch by epoch, each process with its share of every batch."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Sampler

from gnnak.graphs import GraphStore
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.kept import KeptSubgraphs
from gnnak.training.budget import into_windows, shares
from gnnak.training.clock import Clock
from gnnak.training.cutting import cut, pad
from gnnak.training.items import Item
from gnnak.training.shapes import Shapes
from gnnak.training.windows import open_window


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
        self.positions, self.batch_size = positions, batch_size
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


@dataclass(frozen=True)
class Draws:
    """What is drawn ahead for the batches of an epoch."""

    drop: SubgraphDrop
    """Which subgraphs are used."""
    seed: Callable[[], int]
    """Seeds the draws of the coming epoch."""


class Loader:
    """`Item`s of a store, put together on its device, a window of batches at a time.

    Args:
        store: The graphs.
        sampler: Says which of them come together.
        clock: Told the seconds it takes; None = nobody is told.
        kept: Their rooted subgraphs, where these are kept.
        draws: Which of these are used; None = all.
        single: Whether a window is one batch.
        padded: Whether batches of full size are padded, all to one shape.
    """

    def __init__(
        self,
        store: GraphStore,
        sampler: BatchSampler,
        clock: Clock | None = None,
        kept: KeptSubgraphs | None = None,
        draws: Draws | None = None,
        single: bool = False,
        padded: bool = False,
    ) -> None:
        self.store, self.batches, self.clock = store, sampler, clock
        self.kept, self.draws = kept, None if kept is None else draws
        self.shapes = Shapes() if padded else None
        self.share = torch.ones(len(store))
        if not single:
            self.share = shares(store, kept, None if draws is None else draws.drop)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Item]:
        generator = None
        if self.draws is not None:
            generator = torch.Generator(self.store.device)
            generator.manual_seed(self.draws.seed())
        for batches in into_windows(self.batches, self.share):
            yield from self._timed(batches, generator)

    def _timed(
        self, batches: list[Tensor], generator: torch.Generator | None
    ) -> list[Item]:
        with self.clock.time("data") if self.clock else nullcontext():
            return self._items(batches, generator)

    def _items(
        self, batches: list[Tensor], generator: torch.Generator | None
    ) -> list[Item]:
        positions = torch.cat(batches)
        graphs = self.store[positions]
        subgraphs = None if self.kept is None else self.kept[positions]
        if self.draws is not None and subgraphs is not None:
            subgraphs = self.draws.drop(subgraphs, graphs.edge_index, generator)
        groups = graphs.device.type == "cuda" and subgraphs is not None
        if len(batches) == 1 and not groups and self.shapes is None:
            return [Item(graphs, subgraphs)]
        sizes = [len(batch) for batch in batches]
        window = open_window(graphs, subgraphs, sizes, self.store.node_targets)
        full = sizes.count(self.batches.batch_size)
        if self.shapes is None or not full:
            return cut(window, groups)
        items = pad(window, self.shapes.of(window, full), full)
        return items + cut(window, groups, full) if full < len(sizes) else items


def _batch_sizes(count: int, size: int, least: int) -> list[int]:
    sizes = [size] * (count // size) + [count % size] * bool(count % size)
    if len(sizes) > 1 and sizes[-1] < least:
        last = sizes.pop()
        sizes[-1] += last
    return sizes
