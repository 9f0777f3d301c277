"""Extract and sample subgraphs once per forward pass, for all layers of a model."""

import logging
import weakref
from typing import Any

import torch
from torch import Tensor

from gnnak.errors import SubgraphError
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.sampling.graph_cache import CachedGraph
from gnnak.sampling.passes import ThreadState
from gnnak.sampling.replay import (
    MAX_CALLS,
    Replay,
    Sample,
    draw_ticket,
)
from gnnak.subgraphs.attached import attached_to, same_extractor
from gnnak.subgraphs.extractors import Extractor, extract
from gnnak.subgraphs.identity import describe
from gnnak.subgraphs.rooted import RootedSubgraphs

HAND_IN = (
    "subgraphs cannot be extracted in a compiled graph; pass them to the model as "
    "subgraphs=..."
)
"""What `torch.compile(fullgraph=True)` prints if a model gets no subgraphs."""


class SharedSubgraphs:
    """Rooted subgraphs that all layers of a model share in one forward pass.

    The first layer that calls `get` extracts and samples the subgraphs; the other
    layers get the same ones. Egonets stay in the cache across forward passes, as long
    as `get` is called with equal edges. Subgraphs that are random in training are
    sampled once per forward pass. A forward pass is a call of the model, between
    `begin_pass` and `end_pass`. If layers are called outside of the model's call, a new
    forward pass begins after a call of the model, and when a layer is called for the
    second time. Each thread has its own forward passes and its own cache.

    Subgraphs that the caller hands to the model as `subgraphs`, or that a `GraphLoader`
    with the same extractor has attached to `edge_index`, are used instead of extracting
    them.

    Args:
        extractor: Extracts the subgraphs.
        drop: Samples the subgraphs that are used in training. If None, training uses
            all subgraphs; evaluation always uses all subgraphs.
    """

    def __init__(self, extractor: Extractor, drop: SubgraphDrop | None = None) -> None:
        self.extractor = extractor
        self.drop = drop
        self._of_thread = ThreadState()
        self._replay = Replay()
        self._warned = False
        self.compiled: RootedSubgraphs | None = None

    def forget(self) -> None:
        """Clear the cache of the calling thread."""
        self._of_thread.cache.clear()
        self._of_thread.start_pass()

    def begin_call(
        self, _: object, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[tuple, dict[str, Any]] | None:
        """Begin a call of the model, which may hand in the argument `subgraphs`.

        This method is registered as a PyTorch forward pre-hook. Code compiled by
        `torch.compile` or `torch.export` finds the subgraphs in `compiled`.

        Args:
            args: The positional arguments of the call.
            kwargs: The keyword arguments of the call.

        Returns:
            The arguments without `subgraphs`; None if they do not change.
        """
        if "subgraphs" not in kwargs:
            self.begin_pass()
            return None
        rest = {name: value for name, value in kwargs.items() if name != "subgraphs"}
        if torch.compiler.is_compiling():
            self.compiled = kwargs["subgraphs"]
        else:
            self.begin_pass()
            self._of_thread.given = kwargs["subgraphs"]
        return args, rest

    def end_call(self, *_: object) -> None:
        """End a call of the model; registered as a PyTorch forward hook."""
        if torch.compiler.is_compiling() and self.compiled is not None:
            self.compiled = None
        else:
            self.end_pass()

    @torch.compiler.disable(reason=HAND_IN)
    def begin_pass(self, *_: object) -> None:
        """Begin a forward pass: discard the random sample of the previous pass."""
        self._of_thread.start_pass()
        self._of_thread.enter_model()

    @torch.compiler.disable
    def end_pass(self, *_: object) -> None:
        """End a forward pass."""
        self._of_thread.leave_model()
        self._of_thread.given = None

    def enter(self, layer: object) -> bool:
        """Tell that a layer is called; return whether it is the first of its pass.

        Outside of a call of the model, a layer begins a new forward pass if the last
        pass was a call of the model, or if the layer was already called in this pass.

        Args:
            layer: The layer.
        """
        state = self._of_thread
        if state.is_recomputing:
            return False
        if not state.in_model and (state.is_over or id(layer) in state.layers):
            state.start_pass()
        first = not state.layers
        state.layers.add(id(layer))
        return first

    @torch.compiler.disable
    def get(
        self,
        edge_index: Tensor,
        num_nodes: int,
        training: bool,
        generator: torch.Generator | None = None,
        batch: Tensor | None = None,
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
            batch: Index of the graph that each node is in, [n]; None = all nodes are
                in one graph.
        """
        given = self._attached(edge_index, num_nodes, training)
        if given is not None:
            return given
        state = self._of_thread
        # A tensor made in inference mode could not be used in training later.
        with torch.inference_mode(False):
            graph = state.graph(edge_index, num_nodes)
            if getattr(self.extractor, "reads_batch", False):
                graph.set_batch(batch)
            if not training or (self.drop is None and not self.extractor.random):
                return self._all_of(graph, edge_index)
            if state.is_recomputing:
                return self._replayed(graph, edge_index)
            return self._sampled(graph, edge_index, generator)

    def _attached(
        self, edge_index: Tensor, num_nodes: int, training: bool
    ) -> RootedSubgraphs | None:
        """Return subgraphs that were handed in or attached, if they can be used as is.

        In training, these are a sample of SubgraphDrop or, without SubgraphDrop, any
        subgraphs. In evaluation, these are all subgraphs of an extractor that is not
        random. Arguments as in `get`.
        """
        given = self._of_thread.given
        if given is not None:
            whole = not isinstance(given, SampledSubgraphs)
            dropped = training and self.drop is not None and whole
            return None if dropped else given
        found = attached_to(edge_index, num_nodes)
        if found is None or not self._is_mine(found.extractor):
            return None
        sampled = isinstance(found.subgraphs, SampledSubgraphs)
        if training:
            return found.subgraphs if sampled or self.drop is None else None
        return None if sampled or self.extractor.random else found.subgraphs

    def _is_mine(self, extractor: Extractor) -> bool:
        """Return whether an extractor finds the same subgraphs; if not, warn once."""
        same = same_extractor(extractor, self.extractor)
        if not same and not self._warned:
            self._warned = True
            logging.getLogger("gnnak").warning(
                "the batch has the subgraphs of %s, but the model needs those of %s "
                "and extracts them in each forward pass, which is slow",
                describe(extractor),
                describe(self.extractor),
            )
        return same

    def _all_of(self, graph: CachedGraph, edge_index: Tensor) -> RootedSubgraphs:
        """Return the subgraphs that do not change from one forward pass to the next."""
        if graph.full is None:
            graph.full = self._given_whole(edge_index, graph.num_nodes)
        if graph.full is None:
            generator = None
            if self.extractor.random:
                generator = torch.Generator(edge_index.device).manual_seed(0)
            graph.full = self._extract(graph, edge_index, generator)
        return graph.full

    def _given_whole(
        self, edge_index: Tensor, num_nodes: int
    ) -> RootedSubgraphs | None:
        """Return the subgraphs that the user passed or that a loader has attached.

        None if there are none, or if those of the loader are random, only a sample, or
        those of another extractor.
        """
        given = self._of_thread.given
        if given is not None:
            return given
        found = attached_to(edge_index, num_nodes)
        if found is None or self.extractor.random:
            return None
        whole = not isinstance(found.subgraphs, SampledSubgraphs)
        same = same_extractor(found.extractor, self.extractor)
        return found.subgraphs if whole and same else None

    def _sampled(
        self, graph: CachedGraph, edge_index: Tensor, generator: torch.Generator | None
    ) -> RootedSubgraphs:
        """Return the subgraphs of this forward pass; sample them in its first layer.

        A layer of a model samples with a seed of its own, which is remembered for a
        recomputation. Others, which do not call `enter`, sample with `generator`.
        """
        if generator is not None or not self._of_thread.layers:
            if graph.sampled is None:
                graph.sampled = self._sample(graph, edge_index, generator)
            return graph.sampled
        ticket = draw_ticket(edge_index.device)
        if graph.sampled is None or graph.sample is None:
            graph.sampled = self._sample_of_seed(graph, edge_index, ticket)
            graph.sample = Sample(ticket, graph.sampled)
        self._replay.remember((ticket, graph.fingerprint), graph.sample)
        return graph.sampled

    def _replayed(self, graph: CachedGraph, edge_index: Tensor) -> RootedSubgraphs:
        """Return the random subgraphs that a layer used, for its recomputation.

        PyTorch has restored the random state that the layer began with, so the layer
        draws the same ticket again.

        Raises:
            SubgraphError: If PyTorch has not restored the random state, or if too many
                layers were called since (see `MAX_CALLS`).
        """
        ticket = draw_ticket(edge_index.device)
        sample = self._replay.find((ticket, graph.fingerprint))
        if sample is None:
            raise SubgraphError(
                "a layer is recomputed in the backward pass, but the random sample of "
                "its forward pass is unknown; call torch.utils.checkpoint.checkpoint "
                f"with preserve_rng_state=True, and at most {MAX_CALLS} layers before "
                "the backward pass."
            )
        subgraphs = sample.subgraphs()
        if subgraphs is None:
            subgraphs = self._sample_of_seed(graph, edge_index, sample.seed)
            sample.subgraphs = weakref.ref(subgraphs)
            graph.replayed = subgraphs
        return subgraphs

    def _sample_of_seed(
        self, graph: CachedGraph, edge_index: Tensor, seed: int
    ) -> RootedSubgraphs:
        """Return the sample of a seed, which is always the same."""
        generator = torch.Generator(edge_index.device).manual_seed(seed)
        return self._sample(graph, edge_index, generator)

    def _sample(
        self, graph: CachedGraph, edge_index: Tensor, generator: torch.Generator | None
    ) -> RootedSubgraphs:
        """Sample subgraphs for training: random walks, SubgraphDrop, or both."""
        if self.extractor.random:
            full = self._extract(graph, edge_index, generator)
            if self.drop is None:
                return full
            return self.drop(full, edge_index, generator)
        assert self.drop is not None
        full = self._all_of(graph, edge_index)
        if graph.plan is None:
            graph.plan = self.drop.plan(full, edge_index)
        return self.drop(full, edge_index, generator, graph.plan)

    def _extract(
        self, graph: CachedGraph, edge_index: Tensor, generator: torch.Generator | None
    ) -> RootedSubgraphs:
        """Extract all rooted subgraphs of a batch."""
        given = (edge_index, graph.num_nodes, generator, graph.batch)
        return extract(self.extractor, *given)

    def __getstate__(self) -> tuple[Extractor, SubgraphDrop | None]:
        return self.extractor, self.drop

    def __setstate__(self, state: tuple[Extractor, SubgraphDrop | None]) -> None:
        self.__init__(*state)  # type: ignore[misc]
