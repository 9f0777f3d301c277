"""A model whose forward pass, backward pass and update are captured as CUDA graphs.

The loss is computed between the two passes, without a capture: it may be any function,
and may have any number of rows.
"""

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

from gnnak.fast.step.captured import CapturedStep
from gnnak.fast.step.recorder import Recorder
from gnnak.fast.step.update import CapturedUpdate
from gnnak.loading.items import Item, like, tensors_of


class CapturedModel(CapturedStep):
    """A model's forward and backward pass, captured per batch shape and replayed.

    A call returns the outputs of the model; a backward pass through them sets the
    gradients of the weights, as without a capture. Run this backward pass before the
    next call, which overwrites the activations.

    Args:
        forward: Takes an item (a batch), and returns the model's outputs: a tensor, or
            tensors in tuples, lists and dicts.
        recorder: Captures the passes.
        weights: The weights of the model.
        update: Clips the gradients and takes an optimiser step.

    Attributes:
        last: The captured passes that the last call replayed; None if the last call ran
            without a replay.
    """

    def __init__(
        self,
        forward: Callable[[Item], Any],
        recorder: Recorder,
        weights: Sequence[nn.Parameter],
        update: CapturedUpdate,
    ) -> None:
        super().__init__(forward, recorder, self._release_gradients)
        self.weights = [weight for weight in weights if weight.requires_grad]
        self.captured_update = update
        self.last: _Passes | None = None

    @property
    def update_reason(self) -> str | None:
        """Why clipping and optimiser steps are not captured; None if they may be."""
        return self.captured_update.reason

    def __call__(self, item: Item) -> Any:
        """Return the outputs for an item, replayed if its shape was captured."""
        self.last = None
        return super().__call__(item)

    def update(self) -> None:
        """Clip the gradients of the last call and take an optimiser step.

        The clipping and the step are replayed if the last call was a replay, and if the
        captured backward pass computed all gradients that the optimiser reads.
        """
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
        """Return the outputs for a static item, computed without a capture."""
        outputs: list[Any] = []
        nothing = self.weights[0].new_empty(0)

        def work() -> Tensor:
            """Run the forward pass, and return any tensor, as a recorder requires."""
            outputs.append(self.step(static))
            return nothing

        self.recorder.warm_up(work)
        # Copy the outputs: a warm-up allocates from the memory pool that replays use.
        return tree_map(_copied, outputs[0])

    def record(self, static: Item) -> Callable[[], Any]:
        """Capture both passes for a static item; return a function that replays them.

        The function replays the forward pass. A backward pass through its outputs
        replays the captured backward pass.
        """
        passes = _Passes(self.step, static, self.weights, self.recorder)

        def replay() -> Any:
            """Replay the forward pass, and return its outputs."""
            self.last = passes
            return passes()

        return replay

    def close(self) -> None:
        """Free the memory of all captured passes and updates."""
        self._release_all()

    def _release_gradients(self) -> None:
        """Discard captured updates, and gradients in the memory of CUDA graphs."""
        self.captured_update.forget()
        for weight in self.weights:
            weight.grad = None


class _Passes:
    """The captured forward and backward pass for batches of one shape.

    Args:
        forward: Returns the outputs of the model for an item.
        static: A batch in static buffers.
        weights: The weights of the model.
        recorder: Captures the passes.

    Attributes:
        anchor: A scalar that requires a gradient, and so makes the replayed outputs
            require one; see `_Replayed`.
        outputs: The leaves of the outputs (a tensor, or nested tuples, lists and
            dicts of tensors), in the memory of the CUDA graph.
        spec: The nesting of the outputs, to rebuild them from their leaves.
        positions: The positions in `outputs` of the tensors that need a gradient.
        differentiable: The tensors at these positions.
        of_outputs: For each of them, the buffer of its gradient, which the captured
            backward pass reads.
        gradients: For each weight, by its `id`, the gradient that the captured backward
            pass writes; None if the outputs do not depend on the weight.
        written: The pairs of a weight and its gradient, for all that are not None.
        replay_update: Replays clipping and the optimiser step; None before the capture.
    """

    def __init__(
        self,
        forward: Callable[[Item], Any],
        static: Item,
        weights: list[nn.Parameter],
        recorder: Recorder,
    ) -> None:
        self.forward, self.static, self.weights = forward, static, weights
        self.tensors = tensors_of(static)
        self.nothing = weights[0].new_empty(0)
        self.anchor = weights[0].new_zeros((), requires_grad=True)
        self.outputs: list[Any] = []
        self.spec: TreeSpec | None = None
        self.differentiable: list[Tensor] = []
        self.positions: set[int] = set()
        self.gradients: dict[int, Tensor | None] = {}
        self.written: list[tuple[nn.Parameter, Tensor]] = []
        self.of_outputs: list[Tensor] = []
        self.replay_update: Callable[[], object] | None = None
        self.replay_forward = recorder.record(self._run_forward)
        self._allocate()
        self.replay_backward = recorder.record(self._run_backward)
        self._detach()

    def __call__(self) -> Any:
        """Replay the forward pass, and return its outputs."""
        self.replay_forward()
        self._allocate()
        replayed = iter(_Replayed.apply(self.anchor, self))
        leaves = [
            next(replayed) if position in self.positions else _copied(out)
            for position, out in enumerate(self.outputs)
        ]
        assert self.spec is not None
        return tree_unflatten(leaves, self.spec)

    def backward(self, gradients: Sequence[Tensor | None]) -> None:
        """Replay the backward pass, and set the gradients of the weights.

        Args:
            gradients: The gradients of the outputs; None = zero.
        """
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
        """Return whether all gradients are those of the captured backward pass.

        They are not if the loss depends on weights in another way, for example on
        weights that are no part of the model.

        Args:
            trained: The weights that the optimiser updates.
        """
        wanted = map(self.gradients.get, map(id, trained))
        return all(map(is_, [weight.grad for weight in trained], wanted))

    def _detach(self) -> None:
        """Free the autograd graph of the outputs, which is not needed any more.

        The graph refers to the autograd nodes that add up the gradients of the weights.
        As long as these nodes exist, backward passes without a capture run them on the
        stream of the capture.
        """
        self.differentiable = [out.detach() for out in self.differentiable]
        found = iter(self.differentiable)
        self.outputs = [
            next(found) if position in self.positions else out
            for position, out in enumerate(self.outputs)
        ]

    def _allocate(self) -> None:
        """Allocate the buffers `of_outputs`, outside of the graphs' memory."""
        if not self.of_outputs:
            self.of_outputs = [torch.zeros_like(out) for out in self.differentiable]

    def _run_forward(self) -> Tensor:
        """Run the forward pass and store its outputs; this method is captured."""
        with torch.enable_grad():
            outputs = self.forward(like(self.static, self.tensors))
        self.outputs, self.spec = tree_flatten(outputs)
        self.positions = {
            position
            for position, out in enumerate(self.outputs)
            if isinstance(out, Tensor) and out.requires_grad
        }
        self.differentiable = [self.outputs[i] for i in sorted(self.positions)]
        return self.nothing

    def _run_backward(self) -> Tensor:
        """Compute `gradients` from `of_outputs`; this method is captured.

        The attribute `grad` of the weights does not change.
        """
        before = [weight.grad for weight in self.weights]
        for weight in self.weights:
            weight.grad = None
        with torch.autograd.set_multithreading_enabled(False):
            torch.autograd.backward(self.differentiable, self.of_outputs)
        self.gradients = {id(weight): weight.grad for weight in self.weights}
        pairs = [(weight, weight.grad) for weight in self.weights]
        self.written = [(weight, found) for weight, found in pairs if found is not None]
        for weight, gradient in zip(self.weights, before, strict=True):
            weight.grad = gradient
        return self.nothing


class _Replayed(torch.autograd.Function):
    """Connects replayed outputs with the replay of the backward pass."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, passes: _Passes) -> tuple[Tensor, ...]:
        """Return copies of the outputs that the forward pass has just written.

        The next replay overwrites the outputs themselves. `anchor` requires a gradient,
        so that the copies do too.
        """
        ctx.passes = passes
        return tuple(out.clone() for out in passes.differentiable)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[None, None]:
        """Replay the backward pass."""
        ctx.passes.backward(gradients)
        return None, None


def _copied(value: Any) -> Any:
    """Return a copy of a tensor, and any other value unchanged."""
    return value.clone() if isinstance(value, Tensor) else value
