"""A step of training, captured once for each shape of batch and then replayed.

On a GPU a step is hundreds of kernels, and launching them takes longer than running
them; replayed as one CUDA graph they are launched together. A graph reads and writes
always the same memory: what a step is given is copied into the tensors it was captured
with.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from gnnak.training.flat import layout, like, tensors_of
from gnnak.training.items import Item
from gnnak.training.recorder import Recorder

Step = Callable[[Item], Tensor]
WARM_STEPS = 3
"""Steps of each shape before it is captured: they load kernels and make states."""
MOST_SHAPES = 6
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
        self._places: dict[Hashable, _Place] = {}

    def __call__(self, item: Item) -> Tensor:
        """Train on an item; returns its loss."""
        place = None if item.real is None or self.gave_up else self._place(item)
        if place is None:
            return self.step(item)
        fixed = place.put(item)
        if place.replay is not None:
            return place.replay()
        place.warm_steps += 1
        if place.warm_steps <= WARM_STEPS:
            return self.recorder.warm(lambda: self.step(fixed))
        try:
            place.replay = self.recorder.record(lambda: self.step(place.again(fixed)))
        except Exception as error:
            self._give_up(error)
        return self.step(item) if place.replay is None else place.replay()

    def _place(self, item: Item) -> "_Place | None":
        """Where items of this shape are put; None if there are too many shapes."""
        shape = layout(item)
        if shape not in self._places and len(self._places) < MOST_SHAPES:
            self._places[shape] = _Place(item)
        return self._places.get(shape)

    def _give_up(self, error: Exception) -> None:
        self.gave_up = True
        self._places.clear()
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        told = "steps are not captured, which is slower: %s"
        logging.getLogger("gnnak").warning(told, reason)


class _Place:
    """Fixed tensors for the items of one shape, and the step captured with them.

    Args:
        item: An item of this shape.
    """

    def __init__(self, item: Item) -> None:
        self.tensors = [torch.empty_like(tensor) for tensor in tensors_of(item)]
        self.replay: Callable[[], Tensor] | None = None
        self.warm_steps = 0
        by_type = defaultdict(list)
        for position, tensor in enumerate(self.tensors):
            by_type[tensor.dtype].append(position)
        self._by_type = [
            (positions, [self.tensors[position] for position in positions])
            for positions in by_type.values()
        ]

    def put(self, item: Item) -> Item:
        """Copy an item in, tensors of one type at once; returns it from here."""
        given = tensors_of(item)
        for positions, tensors in self._by_type:
            torch._foreach_copy_(tensors, [given[position] for position in positions])
        return self.again(item)

    def again(self, item: Item) -> Item:
        """The item that lies here, without what was derived of the one before it.

        Args:
            item: Any item of this shape.
        """
        return like(item, self.tensors)
