"""Assemble batches with their rooted subgraphs; on a GPU, several batches at once."""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from gnnak.graphs import GraphBatch, GraphStore
from gnnak.graphs.readers.pyg import FieldStore
from gnnak.loading.items import Item
from gnnak.loading.order import BatchOrder, epoch_seed
from gnnak.loading.padder import Padder
from gnnak.loading.prefetch import Prefetcher, prefetch
from gnnak.loading.windows import make_window, split
from gnnak.sampling.drop import (
    CachedPlans,
    SubgraphDrop,
    cache_plans,
    can_sample_first,
    sample_egonets,
)
from gnnak.subgraphs.cached import CachedSubgraphs, cache_if_small
from gnnak.subgraphs.encodings import WithEncodings
from gnnak.subgraphs.extractors import Extractor, extract
from gnnak.subgraphs.rooted import RootedSubgraphs

Count = TypeVar("Count", int, Tensor)

WINDOW_BYTES = {"cuda": 2**24, "cpu": 1}
"""Memory budget of a window in bytes, by device type. On a CPU, larger windows save no
time; one byte makes every window a single batch."""
WINDOW_BATCHES = 4
"""Number of batches that a window should have if subgraphs are cached."""
MAX_FACTOR = 4
"""Largest factor by which the memory budget grows to hold `WINDOW_BATCHES` batches."""
EXTRACTION_FACTOR = 8
"""The memory budget is multiplied by this factor if subgraphs are not cached."""
MIN_SAMPLED_FRACTION = 1 / 4
"""Least share of node copies and edge copies that SubgraphDrop is assumed to sample."""
SAMPLE_GRAPHS = 32
"""Largest number of graphs from which the memory of all subgraphs is estimated."""
WINDOW_PAIRS = 2**24
"""Largest number of node pairs in a window, for computations on all pairs of nodes."""


@dataclass(frozen=True)
class Subgraphs:
    """Where a loader gets the rooted subgraphs of a batch: a cache or an extractor."""

    cached: CachedSubgraphs | None = None
    """The subgraphs of all graphs, or None if they are not cached."""
    extractor: Extractor | None = None
    """Extracts the subgraphs of each batch if `cached` is None. If both are None,
    batches have no subgraphs."""
    drop: SubgraphDrop | None = None
    """Samples some of the subgraphs of each batch. If None, all subgraphs are used."""
    plans: CachedPlans | None = None
    """The sampling plans of all graphs. If None, `drop` computes a plan per batch."""

    def of(
        self, graphs: GraphBatch, positions: Tensor, generator: torch.Generator
    ) -> RootedSubgraphs | None:
        edge_index, num_nodes = graphs.edge_index, graphs.num_nodes
        if self.cached is not None:
            subgraphs = self.cached[positions]
        elif self.extractor is None:
            return None
        elif self.drop is not None and can_sample_first(self.extractor):
            return sample_egonets(
                self.drop, self.extractor, edge_index, num_nodes, generator
            )
        else:
            subgraphs = extract(
                self.extractor, edge_index, num_nodes, generator, graphs.batch
            )
        if self.drop is None:
            return subgraphs
        plan = None if self.plans is None else self.plans[positions]
        return self.drop(subgraphs, edge_index, generator, plan)

    def counts(self, store: GraphStore, positions: Tensor) -> Tensor | None:
        """Return how many nodes, edges and copies each graph has; None if unknown."""
        if self.extractor is not None or self.drop is not None:
            return None
        counts = store.counts if self.cached is None else self.cached.counts
        return counts[:, positions]


def find_subgraphs(
    store: GraphStore, extractor: Extractor | None, drop: SubgraphDrop | None
) -> Subgraphs:
    if extractor is None:
        return Subgraphs()
    cached = cache_if_small(store, extractor)
    if cached is None:
        return Subgraphs(None, extractor, drop)
    plans = None if drop is None else cache_plans(cached, drop)
    return Subgraphs(cached, None, drop, plans)


def memory_shares(
    store: GraphStore,
    cached: CachedSubgraphs | None,
    drop: SubgraphDrop | None = None,
    fraction: float = 1.0,
) -> Tensor:
    entries = (4 * (store.num_nodes + store.num_edges)).double()
    if drop is not None:
        # The `Filling` has about one entry per node.
        entries += 10 * store.num_nodes
    if cached is not None:
        # For a short time, before some are dropped, all subgraphs are in memory.
        part = max(fraction, MIN_SAMPLED_FRACTION)
        entries += part * _entries(cached.num_copies, cached.num_edge_copies)
    limit = WINDOW_BYTES.get(store.device.type, WINDOW_BYTES["cpu"])
    return _add_pairs(8 * entries / limit, store, drop)


def for_several_batches(share: Tensor, batch_size: int) -> Tensor:
    """Lower each graph's share of a window's memory, [g], so that more graphs fit."""
    wanted = WINDOW_BATCHES * batch_size * share.mean()
    return share / wanted.clamp(1, MAX_FACTOR)


def sampled_fraction(
    store: GraphStore,
    cached: CachedSubgraphs,
    subgraphs_of: Callable[[GraphBatch, Tensor], RootedSubgraphs | None],
    most: int = SAMPLE_GRAPHS,
) -> float:
    """Estimate the memory of sampled subgraphs, divided by that of all subgraphs."""
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
    """Estimate each graph's share of window memory, [g], from up to `most` graphs."""
    positions = _some_positions(store, most)
    count, graphs = positions.numel(), store[positions]
    entries = 4 * (graphs.num_nodes + graphs.num_edges)
    subgraphs = subgraphs_of(graphs, positions)
    if subgraphs is not None:
        entries += _entries(subgraphs.num_copies, subgraphs.num_edge_copies)
    limit = WINDOW_BYTES.get(store.device.type, WINDOW_BYTES["cpu"])
    mean = 8 * entries / max(count, 1) / (EXTRACTION_FACTOR * limit)
    share = torch.full((len(store),), mean, dtype=torch.double, device=store.device)
    return _add_pairs(share, store, drop)


def _some_positions(store: GraphStore, most: int) -> Tensor:
    count = min(SAMPLE_GRAPHS, most, len(store))
    return torch.arange(count, device=store.device) * len(store) // max(count, 1)


def _entries(copies: Count, edge_copies: Count) -> Count:
    """Return the number of int64 values in all tensors of rooted subgraphs."""
    return 6 * copies + 5 * edge_copies


def _add_pairs(share: Tensor, store: GraphStore, drop: SubgraphDrop | None) -> Tensor:
    if drop is not None and drop.strategy == "farthest":
        share += store.num_nodes.double().square() / WINDOW_PAIRS
    return share.cpu()


def into_windows(batches: Iterable[Tensor], share: Tensor) -> Iterator[list[Tensor]]:
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


def window_shares(store: GraphStore, source: Subgraphs, batch_size: int) -> Tensor:
    """Return the fraction of a window's memory budget that each graph takes, [g]."""
    generator = torch.Generator(store.device).manual_seed(0)
    drop = source.drop
    if source.extractor is not None and not can_sample_first(source.extractor):
        # All subgraphs are extracted, with their edges, before some are dropped.
        source = replace(source, drop=None)

    subgraphs_of = partial(source.of, generator=generator)
    if source.extractor is not None:
        shares = estimated_memory_shares(store, subgraphs_of, drop, batch_size)
        if isinstance(source.extractor, WithEncodings):
            # Structural encodings are computed from matrices of all pairs of nodes.
            shares += store.counts[0].double().square() / WINDOW_PAIRS
        return shares
    part = 1.0
    if source.cached is not None and drop is not None:
        part = sampled_fraction(store, source.cached, subgraphs_of, batch_size)
    shares = memory_shares(store, source.cached, drop, part)
    return shares if drop is not None else for_several_batches(shares, batch_size)


class Assembled(NamedTuple):
    """A batch and, if it is needed, the same batch with padding."""

    item: Item
    """The batch. It has no padding, unless the option `both` of `Padder` is False."""
    padded: Item | None
    """The padded form of the batch; None if it is not needed."""
    edges: Tensor | None
    """A copy of the batch's edges, to detect changes of `edge_index`; may be None."""


class Assembler:
    """Assembles all batches of a window together, from graphs on the device.

    `batch_size` is None if it varies. If `single`, every window is one batch.
    """

    def __init__(
        self,
        graphs: FieldStore,
        subgraphs: Subgraphs,
        batch_size: int | None,
        padder: Padder | None,
        single: bool,
        copies_edges: bool = False,
    ) -> None:
        self.graphs, self.subgraphs, self.padder = graphs, subgraphs, padder
        self.copies_edges = copies_edges
        store, self.device = graphs.store, graphs.store.device
        self.share = torch.ones(len(store), device="cpu")
        if not single:
            size = min(batch_size or len(store), len(store))
            self.share = window_shares(store, subgraphs, size)

    def assemble(
        self, batches: list[Tensor], generator: torch.Generator
    ) -> list[Assembled]:
        items, padded = self._items(batches, generator)
        found = []
        for item, form, graphs in zip_longest(items, padded, batches):
            extra = item.extra | self.graphs.attributes.others(graphs)
            item = replace(item, extra=extra, positions=graphs.tolist())
            has_copy = self.copies_edges and item.subgraphs is not None
            edges = item.batch.edge_index.clone() if has_copy else None
            found.append(Assembled(item, form, edges))
        return found

    def _items(
        self, batches: list[Tensor], generator: torch.Generator
    ) -> tuple[list[Item], list[Item]]:
        store, attributes = self.graphs.store, self.graphs.attributes
        positions = torch.cat(batches)
        graphs = store[positions]
        subgraphs = self.subgraphs.of(graphs, positions, generator)
        rows = attributes.rows(store, positions) if attributes.tensors else {}
        groups = self.device.type == "cuda" and subgraphs is not None
        if len(batches) == 1 and not groups and self.padder is None:
            return [Item(graphs, subgraphs, extra=rows)], []
        sizes = [len(batch) for batch in batches]
        axes = {name: str(attributes.tensors[name].axis) for name in rows}
        extra = {name: (axes[name], value) for name, value in rows.items()}
        counts = self.subgraphs.counts(store, positions)
        window = make_window(
            graphs, subgraphs, sizes, store.node_targets, extra, counts
        )
        items: list[Item] = []
        padded: list[Item] = []
        if self.padder is not None:
            padded, items = self.padder.pad_if_used(window)
        if len(items) < len(batches):
            items += split(window, groups, first_batch=len(items))
        return items, padded


Windows = Generator[list[Assembled], None, None] | Prefetcher[list[Assembled]]


class EpochWindows:
    """Yields the windows of each epoch; on a GPU, prefetches the next window.

    The random subgraphs of a window depend only on the seed of the epoch and on the
    number of the window's first batch, so that an epoch can start at a later batch.
    """

    def __init__(self, assembler: Assembler, order: BatchOrder, seed: int) -> None:
        # `_start` does not refer to this object: without a reference cycle, the graphs
        # are freed as soon as the loader is.
        self._start = partial(_start, assembler, order, seed)
        # The number of the epoch that is prefetched, and its windows.
        self._prefetched: tuple[int, Windows] | None = None

    def __reduce__(self) -> tuple[type, tuple]:
        return EpochWindows, self._start.args

    def of_epoch(
        self, epoch: int, count: int, first: int = 0, more: bool = True
    ) -> Generator[list[Assembled], None, None]:
        """Yield windows from batch `first` on; if `more`, prefetch the next epoch."""
        windows = self._start(epoch, first) if first else self._take(epoch)
        try:
            for batches in windows:
                first += len(batches)
                if first == count and more:
                    self._prefetch(epoch + 1)
                yield batches
        finally:
            windows.close()

    def close(self) -> None:
        if self._prefetched is not None:
            windows, self._prefetched = self._prefetched[1], None
            windows.close()

    def _prefetch(self, epoch: int) -> None:
        self.close()
        self._prefetched = epoch, self._start(epoch)

    def _take(self, epoch: int) -> Windows:
        """Return the windows of an epoch: those being prefetched, or else new ones."""
        if self._prefetched is not None and self._prefetched[0] == epoch:
            windows, self._prefetched = self._prefetched[1], None
            return windows
        self.close()
        return self._start(epoch)


def _start(
    assembler: Assembler, order: BatchOrder, seed: int, epoch: int, first: int = 0
) -> Windows:
    """Return the windows of an epoch from batch `first` on, and prefetch the first."""

    def assembled() -> Generator[list[Assembled], None, None]:
        if assembler.padder is not None:
            assembler.padder.demand.begin_epoch()
        generator, end = torch.Generator(assembler.device), 0
        seed_of_epoch = epoch_seed(seed, epoch, order.rank)
        for batches in into_windows(order.of_epoch(epoch), assembler.share):
            begin, end = end, end + len(batches)
            if end <= first:
                continue
            generator.manual_seed(epoch_seed(seed_of_epoch, begin))
            gradients = torch.is_grad_enabled()
            # A tensor made in inference mode could not be used in training later, and
            # has no version counter, which tells whether its subgraphs are still valid.
            with torch.inference_mode(False), torch.set_grad_enabled(gradients):
                window = assembler.assemble(batches, generator)
            yield window[max(first - begin, 0) :]

    return prefetch(assembled(), assembler.device)
