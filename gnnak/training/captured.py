"""A step of training, captured once for each shape of batch and then replayed.

On a GPU a step is hundreds of kernels, and launching them takes longer than running
them; replayed as one CUDA graph they are launched together. A graph reads and writes
always the same memory: what a step is given is copied into the tensors it was captured
with.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from gnnak.training.flat import layout, like, tensors_of
from gnnak.training.items import Item
from gnnak.training.recorder import Recorder

Step = Callable[[Item], Tensor]
WARM_STEPS = 3
"""Steps of each shape before it is captured: they load kernels and make states."""
MOST_SHAPES = 4
"""Shapes that are captured; batches of further ones are trained on as they are."""


class CapturedStep:
    """Calls a step for each item, replayed where it can be; each item counts once.

    Items that are not padded hardly ever have the same shape: for them, the step is
    simply called, as it is for the first few of each shape. Should a step resist
    capture, it is called from then on.

    Args:
        step: Trains on an item and returns the detached loss. All that it reads and
            may change between steps is in the item or stays where it is in memory.
        recorder: What captures.
    """

    def __init__(self, step: Step, recorder: Recorder) -> None:
        self.step, self.recorder = step, recorder
        self.gave_up = False
        self._seen: Counter[Hashable] = Counter()
        self._captured: dict[Hashable, _Captured] = {}

    def __call__(self, item: Item) -> Tensor:
        """Train on an item; returns its loss."""
        if item.real is None or self.gave_up:
            return self.step(item)
        shape = layout(item)
        if shape in self._captured:
            return self._captured[shape](item)
        if shape not in self._seen and len(self._seen) == MOST_SHAPES:
            return self.step(item)
        self._seen[shape] += 1
        if self._seen[shape] <= WARM_STEPS:
            return self.recorder.warm(lambda: self.step(item))
        return self._capture(shape, item)

    def _capture(self, shape: Hashable, item: Item) -> Tensor:
        fixed = like(item, [tensor.clone() for tensor in tensors_of(item)])
        inputs = tensors_of(fixed)
        try:
            replay = self.recorder.record(lambda: self.step(fixed))
        except Exception as error:
            self.gave_up = True
            self._captured.clear()
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            told = "steps are not captured, which is slower: %s"
            logging.getLogger("gnnak").warning(told, reason)
            return self.step(item)
        self._captured[shape] = _Captured(replay, fixed, _by_dtype(inputs))
        return self._captured[shape](item)


@dataclass(frozen=True, eq=False)
class _Captured:
    """A step of one shape."""

    replay: Callable[[], Tensor]
    """Does it once more, on `fixed`."""
    fixed: Item
    """What it reads."""
    inputs: list[tuple[list[int], list[Tensor]]]
    """The tensors of `fixed`, by type, with their positions among all of them."""

    def __call__(self, item: Item) -> Tensor:
        """Copy an item in and train on it."""
        given = tensors_of(item)
        for positions, tensors in self.inputs:
            torch._foreach_copy_(tensors, [given[i] for i in positions])
        return self.replay()


def _by_dtype(tensors: list[Tensor]) -> list[tuple[list[int], list[Tensor]]]:
    """Tensors of one type are copied by one kernel."""
    positions: dict[torch.dtype, list[int]] = defaultdict(list)
    for position, tensor in enumerate(tensors):
        positions[tensor.dtype].append(position)
    return [(found, [tensors[i] for i in found]) for found in positions.values()]
