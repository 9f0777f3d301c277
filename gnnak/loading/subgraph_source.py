"""Where the rooted subgraphs of a batch come from: a cache or an extractor."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnnak.graphs import GraphBatch, GraphStore
from gnnak.loading.budget import (
    WINDOW_PAIRS,
    estimated_memory_shares,
    for_several_batches,
    memory_shares,
    sampled_fraction,
)
from gnnak.sampling.cached_plan import CachedPlans, cache_plans, sample_egonets
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.cached import CachedSubgraphs, cache_if_small
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.encodings import WithEncodings
from gnnak.subgraphs.extractors import Extractor, extract
from gnnak.subgraphs.rooted import RootedSubgraphs


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
