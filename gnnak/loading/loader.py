"""Assemble the batches of each epoch from a store, with their rooted subgraphs."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnnak.graphs import GraphBatch, GraphStore
from gnnak.loading.budget import (
    estimated_memory_shares,
    into_windows,
    memory_shares,
    sampled_fraction,
)
from gnnak.loading.epochs import EpochPrefetcher, Epochs
from gnnak.loading.items import Item
from gnnak.loading.prefetch import Prefetcher, prefetch
from gnnak.loading.sampler import BatchSampler
from gnnak.loading.shapes import Shapes
from gnnak.loading.splitting import split, split_padded
from gnnak.loading.windows import make_window
from gnnak.sampling.cached_plan import CachedPlans
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.sampled_egonets import sample_egonets
from gnnak.subgraphs.cached import CachedSubgraphs
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.extractors import Extractor, extract
from gnnak.subgraphs.rooted import RootedSubgraphs

Windows = Generator[list[Item], None, None] | Prefetcher[list[Item]]
"""An iterator over windows (several consecutive batches that are assembled together);
it yields each window as the list of its batches."""


@dataclass(frozen=True)
class Subgraphs:
    """Where a loader gets the rooted subgraphs of a batch: a cache or an extractor."""

    cached: CachedSubgraphs | None = None
    """The cached subgraphs of all graphs; None = subgraphs are not cached."""
    extractor: Extractor | None = None
    """Extracts the subgraphs of each batch if `cached` is None. If both are None, the
    loader yields batches without subgraphs."""
    drop: SubgraphDrop | None = None
    """Samples some of the subgraphs of each batch; None = all subgraphs are used."""
    plans: CachedPlans | None = None
    """What SubgraphDrop precomputes for each graph, cached for all graphs; None = it is
    computed for each batch."""
    seed: Callable[[int], int] | None = None
    """Takes the number of an epoch and returns the random seed for the subgraphs of
    that epoch. None = use PyTorch's default generator."""

    def of(
        self, graphs: GraphBatch, positions: Tensor, generator: torch.Generator | None
    ) -> RootedSubgraphs | None:
        """Return the subgraphs of a batch; None if `cached` and `extractor` are None.

        Args:
            graphs: The batch.
            positions: The positions of the batch's graphs in the store.
            generator: Source of randomness; PyTorch's default generator if None.
        """
        edge_index, num_nodes = graphs.edge_index, graphs.num_nodes
        if self.cached is not None:
            subgraphs = self.cached[positions]
        elif self.extractor is None:
            return None
        elif self.drop is not None and isinstance(self.extractor, EgoNets):
            given = (edge_index, num_nodes, generator)
            return sample_egonets(self.drop, self.extractor, *given)
        else:
            subgraphs = extract(
                self.extractor, edge_index, num_nodes, generator, graphs.batch
            )
        if self.drop is None:
            return subgraphs
        plan = None if self.plans is None else self.plans[positions]
        return self.drop(subgraphs, edge_index, generator, plan)


def window_shares(store: GraphStore, source: Subgraphs, batch_size: int) -> Tensor:
    """Return which fraction of a window's memory budget each of g graphs takes, [g].

    A window is several consecutive batches that are assembled together.

    Args:
        store: The g graphs.
        source: Where their rooted subgraphs come from.
        batch_size: Number of graphs per batch.
    """
    generator = torch.Generator(store.device).manual_seed(0)
    drop = source.drop
    if source.extractor is not None and not isinstance(source.extractor, EgoNets):
        # All subgraphs are extracted, with their edges, before some are dropped.
        source = replace(source, drop=None)

    def subgraphs_of(graphs: GraphBatch, positions: Tensor) -> RootedSubgraphs | None:
        """Return the rooted subgraphs of a batch, with a fixed seed."""
        return source.of(graphs, positions, generator)

    if source.extractor is not None:
        return estimated_memory_shares(store, subgraphs_of, drop, batch_size)
    part = 1.0
    if source.cached is not None and drop is not None:
        part = sampled_fraction(store, source.cached, subgraphs_of, batch_size)
    return memory_shares(store, source.cached, drop, part)


class Loader:
    """Iterate over the batches of an epoch, as `Item`s on the store's device.

    Batches are assembled in windows: several consecutive batches at once. On a GPU, the
    next window is prefetched while the batches of the current window are used. During
    the last window of an epoch, the first window of the next epoch is prefetched, and
    stays in memory until that epoch begins or until `close` is called.

    Args:
        store: The graphs.
        sampler: Chooses the graphs of each batch.
        timed: Returns a context manager that measures how long the loader waits for a
            window.
        subgraphs: Where the rooted subgraphs come from; None = batches have no
            subgraphs.
        single: Whether every window is a single batch. If False, the memory budget
            decides how many batches a window has.
        padded: Whether batches are padded to a few fixed sizes. Batches before the
            first one with `sampler.batch_size` graphs are not padded.
        epochs: The current epoch and the number of epochs; None = every iteration is
            epoch 0, and nothing is prefetched for a next epoch.
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
        self._prefetcher = EpochPrefetcher(self._windows)
        size = sampler.batch_size
        whole = torch.ones(len(store))
        self.share = whole if single else window_shares(store, self.subgraphs, size)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Item]:
        epoch, left = self.epochs.now(), len(self)
        windows = self._prefetcher.take(epoch)
        try:
            for items in self._timed(windows):
                left -= len(items)
                if not left and epoch + 1 < self.epochs.count:
                    self._prefetcher.prefetch(epoch + 1)
                yield from items
        finally:
            windows.close()

    def close(self) -> None:
        """Stop prefetching, and free the window prefetched for the next epoch."""
        self._prefetcher.close()

    def _windows(self, epoch: int) -> Windows:
        """Return an iterator over the windows of an epoch.

        A window is a list of consecutive batches that are assembled together. On a GPU,
        the first window is prefetched at once.
        """
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
        """Yield the windows, and use `timed` to measure the wait for each window."""
        while True:
            with self.timed():
                items = next(windows, None)
            if items is None:
                return
            yield items

    def _items(
        self, batches: list[Tensor], generator: torch.Generator | None
    ) -> list[Item]:
        """Assemble several consecutive batches at once, and pad them if required.

        Args:
            batches: For each batch, the positions of its graphs in the store.
            generator: Source of randomness; PyTorch's default generator if None.
        """
        positions = torch.cat(batches)
        graphs = self.store[positions]
        subgraphs = self.subgraphs.of(graphs, positions, generator)
        groups = graphs.device.type == "cuda" and subgraphs is not None
        if len(batches) == 1 and not groups and self.shapes is None:
            return [Item(graphs, subgraphs)]
        sizes = [len(batch) for batch in batches]
        window = make_window(graphs, subgraphs, sizes, self.store.node_targets)
        full = sizes.count(self.batches.batch_size)
        if self.shapes is None or not (full or self.shapes.largest):
            return split(window, groups)
        # Only the last batch of an epoch can exceed the batch size, if the few graphs
        # that remained were merged into it. Such a batch is not padded.
        until = len(sizes) - (sizes[-1] > self.batches.batch_size)
        if not until:
            return split(window, groups)
        items = split_padded(window, self.shapes.of(window, until, full))
        return items + split(window, groups, until) if until < len(sizes) else items
