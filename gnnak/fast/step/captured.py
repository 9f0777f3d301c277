"""Training steps and models that are captured as CUDA graphs, one per batch shape."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten
from torch_geometric.nn import GATConv, GCNConv

from gnnak.fast.layers.layer import is_always_fused
from gnnak.fast.layers.parts import Serves, implements
from gnnak.fast.step.recorder import GraphRecorder, copied
from gnnak.fast.step.update import CapturedUpdate
from gnnak.loading.items import Item, Shape, like, tensors_of
from gnnak.nn.uplift import GNNAK
from gnnak.optional import has_triton

SYNCHRONISING_CONVS = (GCNConv, GATConv)
"""PyG convs whose forward pass synchronises, to count self loops."""
Step = Callable[[Item], Tensor]
FIRST_WARM_UP, WARM_UP = 3, 1
"""Number of uncaptured steps before the first capture, and before each later one."""


@implements("can_capture")
def can_capture(
    _: Serves, network: nn.Module, device: torch.device, precision: str
) -> bool:
    on_gpu = device.type == "cuda" and precision != "16"
    return on_gpu and not _synchronises(network, precision)


def _synchronises(network: nn.Module, precision: str) -> bool:
    """Return whether a forward pass synchronises; fused layers do not."""
    known = isinstance(network, SYNCHRONISING_CONVS)
    if getattr(network, "synchronises", known):
        return True
    fused = precision in ("32", "bf16") and has_triton()
    if isinstance(network, GNNAK) and fused and is_always_fused(network):
        return False
    return any(_synchronises(child, precision) for child in network.children())


@implements("make_captured")
def make_captured(
    _: Serves, step: Step, device: torch.device, release: Callable[[], object]
) -> Step:
    if device.type != "cuda":
        return NotImplemented
    return CapturedStep(step, GraphRecorder(device), release)


@implements("make_captured_model")
def make_captured_model(
    _: Serves,
    forward: Callable[[Item], Any],
    wrapped: nn.Module | None,
    weights: Sequence[nn.Parameter],
    device: torch.device,
    update: Callable[[], object],
    optimizer: torch.optim.Optimizer,
) -> Callable[[Item], Any]:
    if device.type != "cuda":
        return NotImplemented
    recorder = GraphRecorder(device)
    captured = CapturedUpdate(update, optimizer, recorder, recorder.device)
    return CapturedModel(forward, recorder, wrapped, weights, captured)


class CapturedStep:
    """A training step, captured as one CUDA graph per batch shape, and replayed.

    Smaller shapes share the buffers of the largest shape. If a batch does not fit into
    these buffers, all buffers and CUDA graphs are freed, and the shape of the batch
    becomes the largest. A shape whose buffers were freed never becomes the largest, so
    two shapes cannot replace each other for ever. Before CUDA graphs are freed, a call
    of `release` frees the step's tensors in their memory, such as gradients. Data that
    change between steps must be in the batch (`Item`), or at fixed addresses.
    """

    def __init__(
        self,
        step: Callable[[Item], Any],
        recorder: GraphRecorder,
        release: Callable[[], object] | None = None,
    ) -> None:
        self.step, self.recorder, self.release = step, recorder, release
        self.gave_up = False
        self.reason: str | None = None
        self._largest: _StaticBuffers | None = None
        self._buffers: dict[Shape, _StaticBuffers] = {}
        self._released: set[Shape] = set()

    def __call__(self, item: Item) -> Any:
        if item.shape is None or self.gave_up:
            return self.step(item)
        buffers = self._buffers_for(item, item.shape)
        if buffers is None:
            if self._largest is not None and self._largest.warm_up > 1:
                # Count this step as a warm-up of the largest shape, which may occur
                # only once per epoch. The last warm-up is left: the recorder must see a
                # step that no longer compiles anything.
                self._largest.warm_up -= 1
            # A step may cache tensors in its item. Give it a copy, since the item may
            # be trained on again, and then be copied into buffers.
            return self.step(like(item, tensors_of(item)))
        assert buffers.fixed in (None, item), "a captured step has one fixed item"
        buffers.copy_in(_changing(item))
        if buffers.replay is not None:
            return buffers.replay()
        static = item if item.fixed else like(item, buffers.tensors)
        if buffers.warm_up:
            buffers.warm_up -= 1
            return self.warm_up(static)
        try:
            buffers.replay = self.record(static)
        except Exception as error:
            self._give_up(error)
        return self.step(item) if buffers.replay is None else buffers.replay()

    def _buffers_for(self, item: Item, shape: Shape) -> "_StaticBuffers | None":
        if shape in self._buffers:
            return self._buffers[shape]
        tensors = _changing(item)
        if self._largest is None or not self._largest.can_hold(tensors):
            if shape in self._released:
                return None
            self._release_all()
            empty = list(map(torch.empty_like, tensors))
            buffers = _StaticBuffers(empty, FIRST_WARM_UP, item if item.fixed else None)
            self._largest, self._buffers = buffers, {shape: buffers}
            return buffers
        if self._largest.replay is None:
            return None
        views = self._largest.views_like(tensors)
        self._buffers[shape] = _StaticBuffers(views, WARM_UP)
        return self._buffers[shape]

    def warm_up(self, static: Item) -> Any:
        return self.recorder.warm_up(lambda: self.step(static))

    def record(self, static: Item) -> Callable[[], Any]:
        tensors = tensors_of(static)
        # Each run rebuilds the item from its tensors, so that values which the step
        # caches in the item are recomputed.
        return self.recorder.record(lambda: self.step(like(static, tensors)))

    def _release_all(self) -> None:
        if self._largest is None:
            return
        self._released |= self._buffers.keys()
        self._largest, self._buffers = None, {}
        if self.release is not None:
            self.release()
        self.recorder.release()

    def _give_up(self, error: Exception) -> None:
        self.gave_up = True
        self._release_all()
        self.reason = (str(error).splitlines() or [type(error).__name__])[0]
        message = "steps are not captured, which is slower: %s"
        logging.getLogger("gnnak").warning(message, self.reason)


def _changing(item: Item) -> list[Tensor]:
    """Return the tensors of an item that differ between steps."""
    return [] if item.fixed else tensors_of(item)


class _StaticBuffers:
    """Tensors at fixed addresses, into which batches of one shape are copied.

    If a step reads the tensors of a `fixed` item instead, this keeps them in memory.
    """

    def __init__(
        self, tensors: list[Tensor], warm_up: int, fixed: Item | None = None
    ) -> None:
        self.tensors, self.warm_up, self.fixed = tensors, warm_up, fixed
        self.replay: Callable[[], Any] | None = None
        by_dtype = defaultdict(list)
        for position, tensor in enumerate(tensors):
            by_dtype[tensor.dtype].append(position)
        self._by_dtype = [
            (positions, [tensors[position] for position in positions])
            for positions in by_dtype.values()
        ]

    def copy_in(self, given: list[Tensor]) -> None:
        assert len(given) == len(self.tensors), "an item of this shape has other fields"
        for positions, tensors in self._by_dtype:
            torch._foreach_copy_(tensors, [given[position] for position in positions])

    def can_hold(self, tensors: list[Tensor]) -> bool:
        if len(tensors) != len(self.tensors):
            return False
        pairs = zip(tensors, self.tensors, strict=True)
        return all(a.dtype == b.dtype and a.numel() <= b.numel() for a, b in pairs)

    def views_like(self, tensors: list[Tensor]) -> list[Tensor]:
        pairs = zip(tensors, self.tensors, strict=True)
        return [buffer.view(-1)[: a.numel()].view(a.shape) for a, buffer in pairs]


class CapturedModel(CapturedStep):
    """Captures a model's forward pass, backward pass and update for each batch shape.

    Run the backward pass before the next call, because a call overwrites activations.
    `last` has the `_Passes` that the last call replayed; None if it replayed none.
    """

    def __init__(
        self,
        forward: Callable[[Item], Any],
        recorder: GraphRecorder,
        wrapped: nn.Module | None,
        weights: Sequence[nn.Parameter],
        update: CapturedUpdate,
    ) -> None:
        super().__init__(forward, recorder, self._release_gradients)
        self.wrapped = wrapped
        self.weights = [weight for weight in weights if weight.requires_grad]
        self.captured_update = update
        self.last: _Passes | None = None

    @property
    def update_reason(self) -> str | None:
        """Why clipping and optimiser steps cannot be captured; None if they can."""
        return self.captured_update.reason

    def __call__(self, item: Item) -> Any:
        self.last = None
        return super().__call__(item)

    def update(self) -> None:
        passes, update = self.last, self.captured_update
        groups = update.optimizer.param_groups
        trained = [weight for group in groups for weight in group["params"]]
        if passes is None or not passes.has_own_gradients(trained):
            return update.run()
        if not update.can_replay(passes.replay_update):
            passes.replay_update = update.record()
            if not update.can_replay(passes.replay_update):
                return update.run()
        assert passes.replay_update is not None
        passes.replay_update()
        return None

    def warm_up(self, static: Item) -> Any:
        # Copy the outputs: a warm-up allocates from the memory pool that replays use.
        return tree_map(copied, self.recorder.warm_up(lambda: self.step(static)))

    def record(self, static: Item) -> Callable[[], Any]:
        passes = _Passes(self.step, static, self.wrapped, self.weights, self.recorder)

        def replay() -> Any:
            self.last = passes
            return passes()

        return replay

    def close(self) -> None:
        self._release_all()

    def _release_gradients(self) -> None:
        self.captured_update.forget()
        for weight in self.weights:
            weight.grad = None


class _Passes:
    """The captured forward and backward pass for batches of one shape.

    `DistributedDataParallel` holds autograd nodes of the weights that belong to another
    stream, so they cannot be captured. For a `wrapped` model, other leaf tensors with
    the same memory replace the weights during the capture.
    """

    def __init__(
        self,
        forward: Callable[[Item], Any],
        static: Item,
        wrapped: nn.Module | None,
        weights: list[nn.Parameter],
        recorder: GraphRecorder,
    ) -> None:
        self.forward, self.static = forward, static
        self.wrapped, self.weights = wrapped, weights
        self.leaves: Sequence[nn.Parameter] = weights
        self.tensors = tensors_of(static)
        # Input of `_Replayed`; it requires a gradient so that the outputs do.
        self.anchor = weights[0].new_zeros((), requires_grad=True)
        self.outputs: list[Any] = []
        self.spec: TreeSpec | None = None
        self.differentiable: list[Tensor] = []
        # The positions in `outputs` of the tensors that require a gradient.
        self.positions: set[int] = set()
        # Maps the `id` of a weight to the gradient that replays write.
        self.gradients: dict[int, Tensor | None] = {}
        self.written: list[tuple[nn.Parameter, Tensor]] = []
        # Gradients of `differentiable`, read by the captured backward pass.
        self.of_outputs: list[Tensor] = []
        self.replay_update: Callable[[], object] | None = None
        self.replay_forward = recorder.record(self._run_forward)
        self._allocate()
        self.replay_backward = recorder.record(self._run_backward)
        self._detach()

    def __call__(self) -> Any:
        self.replay_forward()
        self._allocate()
        replayed = iter(_Replayed.apply(self.anchor, self))
        leaves = [
            next(replayed) if position in self.positions else copied(out)
            for position, out in enumerate(self.outputs)
        ]
        assert self.spec is not None
        return tree_unflatten(leaves, self.spec)

    def backward(self, gradients: Sequence[Tensor | None]) -> None:
        """Replay the backward pass with gradients of the outputs; None means zero."""
        for buffer, gradient in zip(self.of_outputs, gradients, strict=True):
            buffer.zero_() if gradient is None else buffer.copy_(gradient)
        for weight, found in self.written:
            if weight.grad is found:
                # The replay writes the new gradient to the memory of the old one.
                weight.grad = found.clone()
        self.replay_backward()
        for weight, found in self.written:
            before = weight.grad
            weight.grad = found if before is None else before + found

    def has_own_gradients(self, trained: Sequence[Tensor]) -> bool:
        """Return whether each weight's `grad` is the tensor that replays write to."""
        wanted = map(self.gradients.get, map(id, trained))
        return all(map(is_, [weight.grad for weight in trained], wanted))

    def _detach(self) -> None:
        """Detach the outputs from the autograd graph, which replays do not use."""
        self.differentiable = [out.detach() for out in self.differentiable]
        found = iter(self.differentiable)
        self.outputs = [
            next(found) if position in self.positions else out
            for position, out in enumerate(self.outputs)
        ]

    def _allocate(self) -> None:
        if not self.of_outputs:
            self.of_outputs = [torch.zeros_like(out) for out in self.differentiable]

    def _run_forward(self) -> None:
        with torch.enable_grad(), self._leaves_in_wrapped():
            outputs = self.forward(like(self.static, self.tensors))
        self.outputs, self.spec = tree_flatten(outputs)
        self.positions = {
            position
            for position, out in enumerate(self.outputs)
            if isinstance(out, Tensor) and out.requires_grad
        }
        self.differentiable = [self.outputs[i] for i in sorted(self.positions)]
        if self.wrapped is not None and _reach(self.differentiable, self.weights):
            raise RuntimeError("the model stores a weight outside of its parameters")

    @contextmanager
    def _leaves_in_wrapped(self) -> Iterator[None]:
        if self.wrapped is None:
            yield
            return
        self.leaves = [nn.Parameter(weight.detach()) for weight in self.weights]
        for leaf, given in zip(self.leaves, self.weights, strict=True):
            leaf._backward_hooks = given._backward_hooks
        leaf_of = dict(zip(map(id, self.weights), self.leaves, strict=True))
        places = [
            (module._parameters, name, weight)
            for module in self.wrapped.modules()
            for name, weight in module._parameters.items()
            if id(weight) in leaf_of
        ]
        for parameters, name, weight in places:
            parameters[name] = leaf_of[id(weight)]
        try:
            yield
        finally:
            for parameters, name, weight in places:
                parameters[name] = weight

    def _run_backward(self) -> None:
        with torch.autograd.set_multithreading_enabled(False):
            found = torch.autograd.grad(
                self.differentiable, self.leaves, self.of_outputs, allow_unused=True
            )
        gradients = separate_gradients(found, self.weights)
        self.gradients = dict(zip(map(id, self.weights), gradients, strict=True))
        pairs = zip(self.weights, gradients, strict=True)
        self.written = [(weight, found) for weight, found in pairs if found is not None]


def _reach(outputs: Sequence[Tensor], weights: Sequence[Tensor]) -> bool:
    """Return whether a backward pass of the outputs leads to one of the weights."""
    nodes: list[Any] = [out.grad_fn for out in outputs]
    wanted, seen = set(map(id, weights)), set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        if id(getattr(node, "variable", None)) in wanted:
            return True
        seen.add(node)
        nodes.extend(following for following, _ in node.next_functions)
    return False


def separate_gradients(
    gradients: Sequence[Tensor | None], weights: Sequence[Tensor]
) -> list[Tensor | None]:
    """Return gradients with the strides of the weights and memory of their own."""
    used: set[int] = set()
    separate: list[Tensor | None] = []
    for gradient, weight in zip(gradients, weights, strict=True):
        if gradient is not None:
            memory = gradient.untyped_storage().data_ptr()
            if memory in used or gradient.stride() != weight.stride():
                gradient = torch.empty_like(weight).copy_(gradient)
            used.add(memory)
        separate.append(gradient)
    return separate


class _Replayed(torch.autograd.Function):
    """Autograd function whose backward pass replays the captured backward pass."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, passes: _Passes) -> tuple[Tensor, ...]:
        ctx.passes = passes
        return tuple(out.clone() for out in passes.differentiable)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[None, None]:
        ctx.passes.backward(gradients)
        return None, None
