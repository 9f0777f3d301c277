"""A training step that is captured as a CUDA graph per batch shape and then replayed.

On a GPU a step is hundreds of kernels, and launching them takes longer than running
them; replayed as one CUDA graph, they are launched together. A graph reads and writes
fixed addresses, so every batch is copied into static buffers before the replay.
"""

import logging
from collections import defaultdict
from collections.abc import Callable

import torch
from torch import Tensor

from gnnak.fast.step.recorder import Recorder
from gnnak.loading.flat import like, tensors_of
from gnnak.loading.items import Item, Shape

Step = Callable[[Item], Tensor]
FIRST_WARM_UP, WARM_UP = 3, 1
"""Uncaptured steps before the capture, for the largest shape and for the others: they
load kernels and allocate optimiser states."""


class CapturedStep:
    """Call a step for each item, and replay its CUDA graph where there is one.

    Every item is trained on exactly once. The step is called, not replayed, for items
    without padding, which hardly ever have the same shape, and for the first few items
    of each shape. If the capture fails, all later steps are called.

    Static buffers and graph memory are allocated for the largest shape, and smaller
    shapes share them. When an item does not fit, all graphs and buffers are released
    before its first step, and capturing starts again with the new largest shape. A
    released shape is not captured as the largest a second time, so that two shapes that
    do not fit into each other cannot release each other forever.

    Args:
        step: Trains on an item and returns the detached loss. Everything that changes
            between steps must be in tensors of the item, whose sizes depend on its
            shape only, or keep its address.
        recorder: Captures the step.
        release: Frees what a step leaves in the graphs' memory, such as gradients; None
            if it leaves nothing.
    """

    def __init__(
        self,
        step: Step,
        recorder: Recorder,
        release: Callable[[], object] | None = None,
    ) -> None:
        self.step, self.recorder, self.release = step, recorder, release
        self.gave_up = False
        self._largest: _StaticBuffers | None = None
        self._buffers: dict[Shape, _StaticBuffers] = {}
        self._released: set[Shape] = set()

    def __call__(self, item: Item) -> Tensor:
        """Train on an item and return its loss."""
        buffers = None
        if item.shape is not None and not self.gave_up:
            buffers = self._buffers_for(item, item.shape)
        if buffers is None:
            return self.step(item)
        buffers.copy_in(item)
        if buffers.replay is not None:
            return buffers.replay()
        static = like(item, buffers.tensors)
        if buffers.warm_up:
            buffers.warm_up -= 1
            return self.recorder.warm_up(lambda: self.step(static))
        try:
            buffers.replay = self.recorder.record(self._repeatable(static))
        except Exception as error:
            self._give_up(error)
        return self.step(item) if buffers.replay is None else buffers.replay()

    def _buffers_for(self, item: Item, shape: Shape) -> "_StaticBuffers | None":
        """Return the buffers of a shape, made if need be; None = call the step."""
        if shape in self._buffers:
            return self._buffers[shape]
        tensors = tensors_of(item)
        if self._largest is None or not self._largest.can_hold(tensors):
            if shape in self._released:
                return None
            self._release_all()
            buffers = _StaticBuffers(
                list(map(torch.empty_like, tensors)), FIRST_WARM_UP
            )
            self._largest, self._buffers = buffers, {shape: buffers}
            return buffers
        if self._largest.replay is None:
            return None
        views = self._largest.views_like(tensors)
        self._buffers[shape] = _StaticBuffers(views, WARM_UP)
        return self._buffers[shape]

    def _repeatable(self, static: Item) -> Callable[[], Tensor]:
        """Return the step on an item, without values cached in its records before."""
        tensors = tensors_of(static)
        return lambda: self.step(like(static, tensors))

    def _release_all(self) -> None:
        """Free the graphs and buffers of all shapes."""
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
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        message = "steps are not captured, which is slower: %s"
        logging.getLogger("gnnak").warning(message, reason)


class _StaticBuffers:
    """Tensors at fixed addresses for the items of one shape, and the captured step.

    Args:
        tensors: The buffers, in the order of `tensors_of`.
        warm_up: Number of uncaptured steps that remain before the capture.
    """

    def __init__(self, tensors: list[Tensor], warm_up: int) -> None:
        self.tensors, self.warm_up = tensors, warm_up
        self.replay: Callable[[], Tensor] | None = None
        by_dtype = defaultdict(list)
        for position, tensor in enumerate(tensors):
            by_dtype[tensor.dtype].append(position)
        self._by_dtype = [
            (positions, [tensors[position] for position in positions])
            for positions in by_dtype.values()
        ]

    def copy_in(self, item: Item) -> None:
        """Copy an item into the buffers, with one launch per dtype."""
        given = tensors_of(item)
        assert len(given) == len(self.tensors), "an item of this shape has other fields"
        for positions, tensors in self._by_dtype:
            torch._foreach_copy_(tensors, [given[position] for position in positions])

    def can_hold(self, tensors: list[Tensor]) -> bool:
        """Return whether these tensors fit into the buffers, one by one."""
        if len(tensors) != len(self.tensors):
            return False
        pairs = zip(tensors, self.tensors, strict=True)
        return all(a.dtype == b.dtype and a.numel() <= b.numel() for a, b in pairs)

    def views_like(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return views of the buffers with the sizes of these tensors."""
        pairs = zip(tensors, self.tensors, strict=True)
        return [buffer.view(-1)[: a.numel()].view(a.shape) for a, buffer in pairs]
