"""Extract and sample subgraphs once per forward pass, for all layers of a model."""

import threading
import weakref

import torch
from torch import Tensor

from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.plan import Plan
from gnnak.subgraphs.extractors import Extractor
from gnnak.subgraphs.rooted import RootedSubgraphs


class SharedSubgraphs:
    """A cache of rooted subgraphs that all layers share in one forward pass.

    The first layer that calls `get` extracts and samples the subgraphs; the other
    layers get them from the cache. Egonets stay in the cache across forward passes, as
    long as `get` is called with the same, unmodified `edge_index` tensor. Sampled
    subgraphs and random-walk subgraphs are discarded when the next forward pass begins.
    Each thread has its own cache.

    Args:
        extractor: Extracts the subgraphs.
        drop: Samples the subgraphs that are used in training. If None, training uses
            all subgraphs; evaluation always uses all subgraphs.
    """

    def __init__(self, extractor: Extractor, drop: SubgraphDrop | None = None) -> None:
        self.extractor = extractor
        self.drop = drop
        self._of_thread = threading.local()

    @property
    def _cache(self) -> "_Cache":
        """The cache of the calling thread; created at first use."""
        if not hasattr(self._of_thread, "cache"):
            self._of_thread.cache = _Cache()
        return self._of_thread.cache

    def forget(self) -> None:
        """Clear the cache of the calling thread."""
        self._cache.clear()

    @torch.compiler.disable
    def begin_pass(self, *_: object) -> None:
        """Begin a forward pass: discard the random samples of the previous pass.

        The next call of `get` then samples again. This method is registered as a
        PyTorch forward pre-hook; it ignores the arguments that PyTorch passes.
        """
        self._cache.sampled = None
        if self.extractor.random:
            self.forget()

    @torch.compiler.disable
    def get(
        self,
        edge_index: Tensor,
        num_nodes: int,
        training: bool,
        generator: torch.Generator | None = None,
    ) -> RootedSubgraphs:
        """Return the rooted subgraphs of a batch for this forward pass.

        Subgraphs that are not in the cache are computed and cached.

        Args:
            edge_index: The batch's edges, [2, e].
            num_nodes: Number of nodes, n.
            training: If True, the subgraphs that SubgraphDrop samples are returned (all
                subgraphs if there is no SubgraphDrop), and a random extractor uses
                `generator`. If False, all subgraphs are returned, and a random
                extractor uses a fixed seed.
            generator: Source of randomness; PyTorch's default generator if None.
        """
        cache = self._cache
        full = self._all_of(cache, edge_index, num_nodes, training, generator)
        if self.drop is None or not training:
            return full
        if cache.plan is None:
            cache.plan = self.drop.plan(full, edge_index)
        if cache.sampled is None:
            cache.sampled = self.drop(full, edge_index, generator, cache.plan)
        return cache.sampled

    def _all_of(
        self,
        cache: "_Cache",
        edge_index: Tensor,
        num_nodes: int,
        training: bool,
        generator: torch.Generator | None,
    ) -> RootedSubgraphs:
        written = None if edge_index.is_inference() else edge_index._version
        mode = training if self.extractor.random else None
        version = (written, num_nodes, mode)
        if cache.full is None or not cache.is_of(edge_index, version):
            if self.extractor.random and not training:
                generator = torch.Generator(edge_index.device).manual_seed(0)
            full = self.extractor(edge_index, num_nodes, generator)
            cache.start(edge_index, version, full)
            return full
        return cache.full

    def __getstate__(self) -> tuple[Extractor, SubgraphDrop | None]:
        return self.extractor, self.drop

    def __setstate__(self, state: tuple[Extractor, SubgraphDrop | None]) -> None:
        self.extractor, self.drop = state
        self._of_thread = threading.local()


class _Cache:
    """The rooted subgraphs of the batch that one thread used last, and their sample."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Empty the cache."""
        self.graph: weakref.ref[Tensor] | None = None
        self.version: tuple[object, ...] | None = None
        self.full: RootedSubgraphs | None = None
        self.plan: Plan | None = None
        self.sampled: RootedSubgraphs | None = None

    def start(
        self, edge_index: Tensor, version: tuple[object, ...], full: RootedSubgraphs
    ) -> None:
        """Empty the cache, then store the rooted subgraphs of a new batch.

        Args:
            edge_index: The batch's edges; the cache is emptied when this tensor is
                freed.
            version: Values that must be equal for the cache to be valid: the tensor's
                version counter, the number of nodes, and the training mode.
            full: All rooted subgraphs of the batch.
        """
        self.clear()
        self.graph = weakref.ref(edge_index, self._clear_if_current)
        self.version, self.full = version, full

    def is_of(self, edge_index: Tensor, version: tuple[object, ...]) -> bool:
        """Return whether the cache is valid for this `edge_index` and `version`.

        The method `start` describes the arguments.
        """
        same = self.graph is not None and self.graph() is edge_index
        return same and self.version == version

    def _clear_if_current(self, dead: "weakref.ref[Tensor]") -> None:
        if self.graph is dead:
            self.clear()
