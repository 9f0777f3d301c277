"""Assemble batches with their rooted subgraphs, within a memory budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from gnnak.graphs import GraphBatch, GraphStore
from gnnak.graphs.readers.pyg_fields import FieldStore
from gnnak.loading.items import Item
from gnnak.loading.padder import Padder
from gnnak.loading.splitting import split
from gnnak.loading.windows import make_window
from gnnak.sampling.cached_plan import CachedPlans, cache_plans, sample_egonets
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.cached import CachedSubgraphs, cache_if_small
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.encodings import WithEncodings
from gnnak.subgraphs.extractors import Extractor, extract
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

    def of(
        self, graphs: GraphBatch, positions: Tensor, generator: torch.Generator
    ) -> RootedSubgraphs | None:
        """Return the subgraphs of a batch; None if `cached` and `extractor` are None.

        Args:
            graphs: The batch.
            positions: The positions of the batch's graphs in the store.
            generator: Source of randomness.
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

    def counts(self, store: GraphStore, positions: Tensor) -> Tensor | None:
        """Return the sizes of some graphs and of their subgraphs, on the CPU.

        They are the argument `counts` of `make_window`. None if the sizes are not known
        before the subgraphs are extracted or sampled.

        Args:
            store: All graphs.
            positions: The positions of k graphs in the store, on the CPU, [k].
        """
        if self.extractor is not None or self.drop is not None:
            return None
        counts = store.counts if self.cached is None else self.cached.counts
        return counts[:, positions]


def find_subgraphs(
    store: GraphStore, extractor: Extractor | None, drop: SubgraphDrop | None
) -> Subgraphs:
    """Return where the rooted subgraphs of batches come from: a cache if possible.

    Subgraphs that are not random and fit into memory are extracted now, and cached.

    Args:
        store: The graphs.
        extractor: Extracts the rooted subgraphs; None = batches have no subgraphs.
        drop: Samples some of the subgraphs of each batch; None = all are used.
    """
    if extractor is None:
        return Subgraphs()
    cached = cache_if_small(store, extractor)
    if cached is None:
        return Subgraphs(None, extractor, drop)
    plans = None if drop is None else cache_plans(cached, drop)
    return Subgraphs(cached, None, drop, plans)


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
    """The batch. It has no padding, unless the padder replaces batches by padded ones
    (`Padder.both` is False)."""
    padded: Item | None
    """The padded form: the same batch, padded to one of a few sizes; None = there is no
    padded form."""


class Assembler:
    """Assembles batches from graphs on a device: those of a window together.

    A window is several consecutive batches on a GPU, and a single batch on a CPU.

    Args:
        graphs: The graphs, with all fields.
        subgraphs: Where the rooted subgraphs of a batch come from.
        batch_size: Number of graphs of a full batch; None = it varies.
        padder: Pads batches; None = batches are not padded.
        single: Whether every window is a single batch. If False, the memory budget
            decides how many batches a window has.

    Attributes:
        share: Fraction of the memory budget that each of the g graphs takes, [g].
    """

    def __init__(
        self,
        graphs: FieldStore,
        subgraphs: Subgraphs,
        batch_size: int | None,
        padder: Padder | None,
        single: bool,
    ) -> None:
        self.graphs, self.subgraphs, self.padder = graphs, subgraphs, padder
        store, self.device = graphs.store, graphs.store.device
        self.share = torch.ones(len(store), device="cpu")
        if not single:
            size = min(batch_size or len(store), len(store))
            self.share = window_shares(store, subgraphs, size)

    def begin_epoch(self) -> None:
        """Tell the padder that the windows of an epoch are going to be assembled."""
        if self.padder is not None:
            self.padder.demand.begin_epoch()

    def assemble(
        self, batches: list[Tensor], generator: torch.Generator
    ) -> list[Assembled]:
        """Assemble the batches of a window.

        Args:
            batches: For each batch, the positions of its graphs.
            generator: Source of randomness, for the rooted subgraphs.
        """
        items, padded = self._items(batches, generator)
        found = []
        for item, form, graphs in zip_longest(items, padded, batches):
            extra = item.extra | self.graphs.attributes.others(graphs)
            item = replace(item, extra=extra, positions=graphs.tolist())
            found.append(Assembled(item, form))
        return found

    def _items(
        self, batches: list[Tensor], generator: torch.Generator
    ) -> tuple[list[Item], list[Item]]:
        """Return the batches of a window, and their padded forms.

        There may be fewer padded forms than batches, or none.
        """
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
