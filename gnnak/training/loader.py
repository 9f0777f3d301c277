"""Batches of a store, epoch by epoch, each process with its share of every batch."""

from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Sampler

from gnnak.graphs import GraphBatch, GraphStore
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.kept_plan import KeptPlan
from gnnak.subgraphs.extractors import Extractor
from gnnak.subgraphs.kept import KeptSubgraphs
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.training.ahead import MadeAhead, ahead
from gnnak.training.budget import into_windows, shares
from gnnak.training.clock import Clock
from gnnak.training.cutting import cut, pad
from gnnak.training.items import Item
from gnnak.training.shapes import Shapes
from gnnak.training.windows import open_window

Closable = Generator[list[Item], None, None] | MadeAhead[list[Item]]
"""Windows, which can be closed early."""


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
class Subgraphs:
    """Where the rooted subgraphs of batches come from."""

    kept: KeptSubgraphs | None = None
    """Those of all graphs, where they are kept."""
    extractor: Extractor | None = None
    """What makes them, where they are not; None = the network does it."""
    drop: SubgraphDrop | None = None
    """Which of them are used; None = all."""
    plans: KeptPlan | None = None
    """What draws need of all graphs, where it is kept."""
    seed: Callable[[], int] | None = None
    """Seeds what is drawn in the coming epoch; None = nothing is."""

    def of(
        self, graphs: GraphBatch, positions: Tensor, generator: torch.Generator | None
    ) -> RootedSubgraphs | None:
        """The subgraphs of a batch; None if the network is to make them."""
        if self.kept is not None:
            subgraphs = self.kept[positions]
        elif self.extractor is not None:
            subgraphs = self.extractor(graphs.edge_index, graphs.num_nodes, generator)
        else:
            return None
        if self.drop is None:
            return subgraphs
        plan = None if self.plans is None else self.plans[positions]
        return self.drop(subgraphs, graphs.edge_index, generator, plan)


class Loader:
    """`Item`s of a store, put together on its device, a window of batches at a time.

    Args:
        store: The graphs.
        sampler: Says which of them come together.
        clock: Told the seconds it takes; None = nobody is told.
        subgraphs: Where their rooted subgraphs come from; None = nowhere.
        single: Whether a window is one batch.
        padded: Whether batches of full size are padded, all to one shape.
    """

    def __init__(
        self,
        store: GraphStore,
        sampler: BatchSampler,
        clock: Clock | None = None,
        subgraphs: Subgraphs | None = None,
        single: bool = False,
        padded: bool = False,
    ) -> None:
        self.store, self.batches, self.clock = store, sampler, clock
        self.subgraphs = subgraphs or Subgraphs()
        self.shapes = Shapes() if padded else None
        self.share = torch.ones(len(store))
        self.max_hop = -1
        if not single:
            self.share = shares(store, self.subgraphs.kept, self.subgraphs.drop)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Item]:
        windows = self._windows()
        try:
            for items in self._timed(windows):
                yield from items
        finally:
            windows.close()

    def _windows(self) -> Closable:
        generator = None
        if self.subgraphs.seed is not None:
            generator = torch.Generator(self.store.device)
            generator.manual_seed(self.subgraphs.seed())
        windows = (
            self._items(batches, generator)
            for batches in into_windows(self.batches, self.share)
        )
        return ahead(windows, self.store.device)

    def _timed(self, windows: Closable) -> Iterator[list[Item]]:
        while True:
            with self.clock.time("data") if self.clock else nullcontext():
                items = next(windows, None)
            if items is None:
                return
            yield items

    def _items(
        self, batches: list[Tensor], generator: torch.Generator | None
    ) -> list[Item]:
        positions = torch.cat(batches)
        graphs = self.store[positions]
        subgraphs = self.subgraphs.of(graphs, positions, generator)
        groups = graphs.device.type == "cuda" and subgraphs is not None
        if len(batches) == 1 and not groups and self.shapes is None:
            return [Item(graphs, subgraphs)]
        sizes = [len(batch) for batch in batches]
        window = open_window(graphs, subgraphs, sizes, self.store.node_targets)
        # Records that differ in it alone are of one shape: steps are captured once.
        self.max_hop = max(self.max_hop, window.known["max_hop"])
        window.known["max_hop"] = self.max_hop
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
