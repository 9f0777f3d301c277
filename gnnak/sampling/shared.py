"""Extract and sample subgraphs once per forward pass, for all layers of a model."""

import hashlib
import logging
import threading
import weakref
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gnnak.errors import SizeError, SubgraphError
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.sampling.plan import Plan
from gnnak.subgraphs.attached import (
    NAME,
    Attached,
    attached_to,
    equal_edges,
    same_extractor,
)
from gnnak.subgraphs.encodings import PART
from gnnak.subgraphs.extractors import Extractor, describe, extract
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.streamed import StreamedSubgraphs, can_stream, streamed

MAX_CALLS = 2000
"""A `Replay` remembers the samples of the latest layer calls, at most this many."""

Key = tuple[int, int]
"""Identifies a layer call: its ticket (a random number) and the graph's fingerprint."""

_LOCK = threading.Lock()


class Sample:
    """A weak reference to random subgraphs, and the seed to sample them again."""

    def __init__(self, seed: int, subgraphs: RootedSubgraphs) -> None:
        self.seed = seed
        self.subgraphs = weakref.ref(subgraphs)


class Replay:
    """Remembers the random subgraphs of layer calls, for activation checkpointing."""

    def __init__(self) -> None:
        self._samples: dict[Key, Sample | None] = {}
        self._lock = threading.Lock()

    def remember(self, key: Key, sample: Sample) -> None:
        """Store the sample of a layer call, or None if its key has two samples."""
        with self._lock:
            known = self._samples.pop(key, sample)
            same = known is not None and known.seed == sample.seed
            self._samples[key] = sample if same else None
            if len(self._samples) > MAX_CALLS:
                del self._samples[next(iter(self._samples))]

    def find(self, key: Key) -> Sample | None:
        return self._samples.get(key)


def draw_ticket(device: torch.device) -> int:
    """Draw a random number from a device's default generator, without synchronising."""
    if device.type != "cuda":
        return int(torch.randint(2**63 - 1, (), device="cpu"))
    with _LOCK:
        state = torch.cuda.get_rng_state(device)
        torch.rand((), device=device)  # Changes the state for the next ticket.
    digest = hashlib.sha256(state.numpy().tobytes()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def backward_task() -> int | None:
    """Return the number of the backward pass that this thread runs, if it runs one."""
    task = torch._C._current_graph_task_id()
    return None if task == -1 else task


class CachedGraph:
    """A copy of one graph's edges, with the subgraphs and sampling plan of this graph.

    `full` (all subgraphs) and `plan` are not random. `sampled` are the random subgraphs
    of this forward pass. `replayed` are those of an earlier forward pass, sampled again
    with the same seed to recompute a layer in the backward pass.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self.batch: Tensor | None = None
        self.full: RootedSubgraphs | None = None
        self.plan: Plan | None = None
        self.discard_sample()
        self._edges = edge_index.detach().clone()
        self._tensor = weakref.ref(edge_index)
        self._version = _version(edge_index)

    def discard_sample(self) -> None:
        self.sampled: RootedSubgraphs | None = None
        self.sample: Sample | None = None
        self.replayed: RootedSubgraphs | None = None

    @cached_property
    def fingerprint(self) -> int:
        edges = self._edges.cpu().contiguous()
        return hash((edges.numpy().tobytes(), edges.shape, self.num_nodes))

    def set_batch(self, batch: Tensor | None) -> None:
        """Set the graph of each node, [n]. If it has changed, discard all subgraphs."""
        old = self.batch
        if batch is old:
            return
        if batch is None or old is None or not torch.equal(batch, old):
            self.full, self.plan = None, None
            self.discard_sample()
        self.batch = None if batch is None else batch.detach().clone()

    def has(self, edge_index: Tensor, num_nodes: int, compared: bool) -> bool:
        if num_nodes != self.num_nodes:
            return False
        capturing = edge_index.is_cuda and torch.cuda.is_current_stream_capturing()
        # Tensors made in inference mode have no version, which counts writes.
        known = compared and self._version is not None and edge_index.is_cuda
        same = self._tensor() is edge_index and self._version == _version(edge_index)
        if same and (capturing or known):
            return True
        return not capturing and equal_edges(edge_index, self._edges)


class GraphCache:
    """Caches the last `CachedGraph` until its `edge_index` is freed."""

    def __init__(self) -> None:
        self._held = False
        self.clear()

    def clear(self) -> None:
        self._graph: CachedGraph | None = None
        self._owner: weakref.ref[Tensor] | None = None

    def hold(self) -> None:
        """Keep the cached graph until `release`, even if `edge_index` is freed."""
        self._held = True

    def release(self) -> None:
        """Stop keeping the graph; discard it now if its `edge_index` was freed."""
        self._held = False
        if self._owner is not None and self._owner() is None:
            self.clear()

    def discard_sample(self) -> None:
        if self._graph is not None:
            self._graph.discard_sample()

    def get(self, edge_index: Tensor, num_nodes: int, compared: bool) -> CachedGraph:
        """Return the cached graph with these edges; otherwise, cache a new graph.

        Comparing edges synchronises with a GPU. During a capture, or if this forward
        pass has `compared` them, an equal version counter of the tensor suffices.
        """
        graph = self._graph
        if graph is not None and graph.has(edge_index, num_nodes, compared):
            return graph
        graph = CachedGraph(edge_index, num_nodes)
        self._graph = graph
        self._owner = weakref.ref(edge_index, self._clear_if_current)
        return graph

    def _clear_if_current(self, dead: "weakref.ref[Tensor]") -> None:
        if self._owner is dead and not self._held:
            self.clear()


def _version(tensor: Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


class ThreadState(threading.local):
    """The cache and the current forward pass of one thread.

    - `given`: the subgraphs that the caller passed to the model, if any.
    - `layers`: the ids of the layers that this forward pass has called so far.
    - `task`: the backward pass that recomputes this forward pass, if any.
    - `compared`: whether this forward pass has compared its edges with the cache.
    - `attached`: a loader's subgraphs whose edges this pass has compared, if any.
    - `is_over`: whether the forward pass was a call of the model, and has ended.
    """

    def __init__(self) -> None:
        self.cache = GraphCache()
        self.in_model = False
        self.given: RootedSubgraphs | None = None
        self.start_pass()

    def start_pass(self) -> None:
        self.task = backward_task()
        self.compared = False
        self.attached: Attached | None = None
        self.layers: set[int] = set()
        self.is_over = False
        self.cache.discard_sample()

    @property
    def trusts_versions(self) -> bool:
        """Whether later calls need to compare only version counters of edges."""
        return self.in_model and not self.is_recomputing

    @property
    def is_recomputing(self) -> bool:
        """Whether activation checkpointing recomputes a layer, not the whole model."""
        task = backward_task()
        return task is not None and not (self.in_model and self.task == task)


class SharedSubgraphs:
    """Rooted subgraphs that all layers of a model share in one forward pass.

    The first layer that calls `get` extracts and samples the subgraphs, unless the
    caller or a loader provides them. Subgraphs that are not random are cached until a
    forward pass has other edges. If they do not fit into memory, each layer extracts
    slices of about `max_copies` node copies. If layers are called without a model, a
    forward pass ends when a layer is called for the second time.
    """

    def __init__(
        self,
        extractor: Extractor,
        drop: SubgraphDrop | None = None,
        max_copies: int | None = None,
    ) -> None:
        self.extractor, self.drop, self.max_copies = extractor, drop, max_copies
        self._of_thread = ThreadState()
        self._replay = Replay()
        self._warned = False
        self.compiled: RootedSubgraphs | None = None

    def forget(self) -> None:
        self._of_thread.cache.clear()
        self._of_thread.start_pass()

    def begin_call(
        self, _: object, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[tuple, dict[str, Any]] | None:
        """Forward pre-hook: begin a pass; remove `subgraphs` from the arguments."""
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
        if torch.compiler.is_compiling() and self.compiled is not None:
            self.compiled = None
        else:
            self.end_pass()

    @torch.compiler.disable(
        reason="subgraphs cannot be extracted in a compiled graph; pass them to the "
        "model as subgraphs=..."
    )
    def begin_pass(self, *_: object) -> None:
        state = self._of_thread
        state.start_pass()
        state.in_model = True
        state.cache.hold()

    @torch.compiler.disable
    def end_pass(self, *_: object) -> None:
        state = self._of_thread
        state.in_model = False
        state.is_over = True
        state.given = None
        state.cache.release()

    def enter(self, layer: object) -> bool:
        """Record a layer's call; return whether it is the first in its forward pass."""
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
        """Return the rooted subgraphs of a batch; `batch`, [n], has each node's graph.

        In evaluation, nothing is dropped, and a random extractor uses a fixed seed.
        """
        given = self._given(edge_index, num_nodes)
        if given is not None and self._is_usable(given, training):
            return given
        if torch.jit.is_tracing() or torch.compiler.is_exporting():
            told = "the extraction of subgraphs can be neither exported nor traced"
            given_as = "pass the subgraphs to the model as subgraphs=..."
            raise SubgraphError(f"{told}; {given_as}")
        state = self._of_thread
        # A tensor made in inference mode could not be used in training later.
        with torch.inference_mode(False):
            graph = state.cache.get(edge_index, num_nodes, state.compared)
            state.compared = state.trusts_versions
            if getattr(self.extractor, "reads_batch", False):
                graph.set_batch(batch)
            if not training or (self.drop is None and not self.extractor.random):
                return self._all_of(graph, edge_index)
            if state.is_recomputing:
                return self._replayed(graph, edge_index)
            return self._sampled(graph, edge_index, generator)

    def _given(self, edge_index: Tensor, num_nodes: int) -> RootedSubgraphs | None:
        state = self._of_thread
        if state.given is not None:
            return state.given
        found = attached_to(edge_index, num_nodes, state.attached)
        state.attached = found if state.trusts_versions else None
        has_none = not hasattr(edge_index, NAME)
        if has_none and hasattr(edge_index, PART):
            self._warn_once(
                "the batch of a RootLoader has no subgraphs, so the model extracts "
                "those of %s from the batch, and outputs differ from those on the "
                "whole graph; pass subgraphs=%s to RootLoader",
                *[describe(self.extractor)] * 2,
            )
        if found is None or not self._is_mine(found.extractor):
            return None
        return found.subgraphs

    def _is_usable(self, given: RootedSubgraphs, training: bool) -> bool:
        """Return whether given subgraphs fit the mode, training or evaluation."""
        sampled = isinstance(given, SampledSubgraphs)
        if training:
            return sampled or self.drop is None
        handed_in = given is self._of_thread.given
        return handed_in or not (sampled or self.extractor.random)

    def _is_mine(self, extractor: Extractor) -> bool:
        """Return whether `extractor` equals that of the model; if not, warn once."""
        same = same_extractor(extractor, self.extractor)
        if not same:
            mine = describe(self.extractor)
            self._warn_once(
                "the batch has the subgraphs of %s, but the model needs those of %s "
                "and extracts them in each forward pass, which is slow and, for a "
                "RootLoader, changes outputs; pass subgraphs=%s to the loader",
                *(describe(extractor), mine, mine),
            )
        return same

    def _warn_once(self, message: str, *shown: str) -> None:
        if not self._warned:
            self._warned = True
            logging.getLogger("gnnak").warning(message, *shown)

    def _all_of(self, graph: CachedGraph, edge_index: Tensor) -> RootedSubgraphs:
        """Return all subgraphs, without sampling, and cache them."""
        if graph.full is None and not self.extractor.random:
            given = self._given(edge_index, graph.num_nodes)
            graph.full = None if isinstance(given, SampledSubgraphs) else given
        if graph.full is None:
            generator = None
            if self.extractor.random:
                generator = torch.Generator(edge_index.device).manual_seed(0)
            try:
                graph.full = self._extract(graph, edge_index, generator)
            except SizeError:
                if self.max_copies is None or not can_stream(self.extractor):
                    raise
                # The copy of the edges belongs to the cache, as the slices do.
                edges, size = edge_index.clone(), graph.num_nodes
                graph.full = streamed(self.extractor, edges, size, self.max_copies)
        return graph.full

    def _sampled(
        self, graph: CachedGraph, edge_index: Tensor, generator: torch.Generator | None
    ) -> RootedSubgraphs:
        """Return the random subgraphs of this forward pass, sampled at first use."""
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
        """Return the random subgraphs that the recomputed layer used before."""
        sample = self._replay.find((draw_ticket(edge_index.device), graph.fingerprint))
        if sample is None:
            raise SubgraphError(
                "a layer is recomputed in the backward pass, but the random sample of "
                "its forward pass is unknown; checkpoint with preserve_rng_state=True, "
                f"and call at most {MAX_CALLS} layers before the backward pass."
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
        generator = torch.Generator(edge_index.device).manual_seed(seed)
        return self._sample(graph, edge_index, generator)

    def _sample(
        self, graph: CachedGraph, edge_index: Tensor, generator: torch.Generator | None
    ) -> RootedSubgraphs:
        if self.extractor.random:
            full = self._extract(graph, edge_index, generator)
            if self.drop is None:
                return full
            return self.drop(full, edge_index, generator)
        assert self.drop is not None
        full = self._all_of(graph, edge_index)
        if isinstance(full, StreamedSubgraphs):
            raise SizeError(
                "the rooted subgraphs do not fit into memory, and SubgraphDrop samples "
                "from all; leave SubgraphDrop out, or lower num_hops or max_neighbors."
            )
        if graph.plan is None:
            graph.plan = self.drop.plan(full, edge_index)
        return self.drop(full, edge_index, generator, graph.plan)

    def _extract(
        self, graph: CachedGraph, edge_index: Tensor, generator: torch.Generator | None
    ) -> RootedSubgraphs:
        size, batch = graph.num_nodes, graph.batch
        return extract(self.extractor, edge_index, size, generator, batch)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.extractor, self.drop, self.max_copies

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]
