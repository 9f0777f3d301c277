"""Batches of a store, epoch by epoch, with all that a step of training needs."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnnak.graphs import GraphBatch, GraphStore
from gnnak.loading.budget import (
    expected_shares,
    into_windows,
    sampled_fraction,
    shares,
)
from gnnak.loading.cutting import cut, pad
from gnnak.loading.epochs import EpochPrefetcher, Epochs
from gnnak.loading.items import Item
from gnnak.loading.prefetch import Prefetcher, prefetch
from gnnak.loading.sampler import BatchSampler
from gnnak.loading.shapes import Shapes
from gnnak.loading.windows import open_window
from gnnak.sampling.cached_plan import CachedPlans
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.sampled_egonets import sample_egonets
from gnnak.subgraphs.cached import CachedSubgraphs
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.extractors import Extractor
from gnnak.subgraphs.rooted import RootedSubgraphs

Windows = Generator[list[Item], None, None] | Prefetcher[list[Item]]
"""The items of one window after the other."""


@dataclass(frozen=True)
class Subgraphs:
    """Where the rooted subgraphs of batches come from."""

    kept: CachedSubgraphs | None = None
    """Those of all graphs, where they are kept."""
    extractor: Extractor | None = None
    """What makes them, where they are not; None = the network does it."""
    drop: SubgraphDrop | None = None
    """Which of them are used; None = all."""
    plans: CachedPlans | None = None
    """What draws need of all graphs, where it is kept."""
    seed: Callable[[int], int] | None = None
    """From the number of an epoch to the seed of what is drawn in it; None = nothing
    is."""

    def of(
        self, graphs: GraphBatch, positions: Tensor, generator: torch.Generator | None
    ) -> RootedSubgraphs | None:
        """The subgraphs of a batch; None if the network is to make them."""
        edge_index, num_nodes = graphs.edge_index, graphs.num_nodes
        if self.kept is not None:
            subgraphs = self.kept[positions]
        elif self.extractor is None:
            return None
        elif self.drop is not None and isinstance(self.extractor, EgoNets):
            given = (edge_index, num_nodes, generator)
            return sample_egonets(self.drop, self.extractor, *given)
        else:
            subgraphs = self.extractor(edge_index, num_nodes, generator)
        if self.drop is None:
            return subgraphs
        plan = None if self.plans is None else self.plans[positions]
        return self.drop(subgraphs, edge_index, generator, plan)


class Loader:
    """`Item`s of a store, put together on its device, a window of batches at a time.

    When the last window of an epoch is taken, those of the next epoch are begun: on a
    GPU the first of them is made meanwhile. As in the middle of an epoch, one window is
    in use and one more is there. It stays there through an evaluation between them, and
    until `close` if the next epoch never comes.

    Args:
        store: The graphs.
        sampler: Says which of them come together.
        timed: Opens a context around the assembly of each window, to time it.
        subgraphs: Where their rooted subgraphs come from; None = nowhere.
        single: Whether a window is one batch.
        padded: Whether batches are padded to a few shapes, if any is of full size.
        epochs: Which epoch is at hand; None = they are all the same, and none is begun
            ahead.
    """

    def __init__(
        self,
        store: GraphStore,
        sampler: BatchSampler,
        timed: Callable[[], AbstractContextManager] = nullcontext,
        subgraphs: Subgraphs | None = None,
        single: bool = False,
        padded: bool = False,
        epochs: Epochs | None = None,
    ) -> None:
        self.store, self.batches, self.timed = store, sampler, timed
        self.subgraphs = subgraphs or Subgraphs()
        self.shapes = Shapes() if padded else None
        self.epochs = epochs or Epochs(lambda: 0, 1)
        self._begun = EpochPrefetcher(self._windows)
        self.share = torch.ones(len(store)) if single else self._shares()

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Item]:
        epoch, left = self.epochs.now(), len(self)
        windows = self._begun.take(epoch)
        try:
            for items in self._timed(windows):
                left -= len(items)
                if not left and epoch + 1 < self.epochs.count:
                    self._begun.ahead_of(epoch + 1)
                yield from items
        finally:
            windows.close()

    def _shares(self) -> Tensor:
        """What share of a window each graph takes, [g]."""
        draw = torch.Generator(self.store.device).manual_seed(0)
        made, drop = self.subgraphs, self.subgraphs.drop
        if made.extractor is not None and not isinstance(made.extractor, EgoNets):
            # All of them are there, with their edges, before some are dropped.
            made = replace(made, drop=None)

        def some(graphs: GraphBatch, positions: Tensor) -> RootedSubgraphs | None:
            return made.of(graphs, positions, draw)

        most = self.batches.batch_size
        if made.extractor is not None:
            return expected_shares(self.store, some, drop, most)
        drawn = 1.0
        if made.kept is not None and drop is not None:
            drawn = sampled_fraction(self.store, made.kept, some, most)
        return shares(self.store, made.kept, drop, drawn)

    def close(self) -> None:
        """Give up what was begun for an epoch that does not come."""
        self._begun.close()

    def _windows(self, epoch: int) -> Windows:
        generator = None
        if self.subgraphs.seed is not None:
            generator = torch.Generator(self.store.device)
            generator.manual_seed(self.subgraphs.seed(epoch))
        windows = (
            self._items(batches, generator)
            for batches in into_windows(self.batches.of_epoch(epoch), self.share)
        )
        return prefetch(windows, self.store.device)

    def _timed(self, windows: Windows) -> Iterator[list[Item]]:
        while True:
            with self.timed():
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
        full = sizes.count(self.batches.batch_size)
        if self.shapes is None or not (full or self.shapes.largest):
            return cut(window, groups)
        # Only the last batch may be larger: what would be too small has joined it.
        until = len(sizes) - (sizes[-1] > self.batches.batch_size)
        if not until:
            return cut(window, groups)
        items = pad(window, self.shapes.of(window, until, full))
        return items + cut(window, groups, until) if until < len(sizes) else items
