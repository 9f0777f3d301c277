"""A step of training, captured for one shape of batch at a time and then replayed.

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

from gnnak.training.batches.items import Item
from gnnak.training.flat import layout, like, tensors_of
from gnnak.training.recorder import Recorder

Step = Callable[[Item], Tensor]
WARM_STEPS = 3
"""Steps of each shape before it is captured: they load kernels and make states."""


class CapturedStep:
    """Calls a step for each item, replayed where it can be; each item counts once.

    Items that are not padded hardly ever have the same shape: for them, the step is
    simply called, as it is for the first few of each shape. Should a step resist
    capture, it is called from then on.

    The memory of one shape is held at a time: what was captured for another is given
    back before the first step of a new one. A loader's shape only grows, and one that
    was outgrown never comes back. If one does come back, its items are trained on as
    they are: no shape is captured twice, so that shapes by turns end in steps of which
    some are replayed and the others called.

    Args:
        step: Trains on an item and returns the detached loss. All that it reads and
            may change between steps is in the item or stays where it is in memory.
        recorder: What captures.
        let_go: Lets go of what a step leaves in the memory it was captured with, such
            as gradients; None if it leaves nothing.
    """

    def __init__(
        self,
        step: Step,
        recorder: Recorder,
        let_go: Callable[[], object] | None = None,
    ) -> None:
        self.step, self.recorder, self.let_go = step, recorder, let_go
        self.gave_up = False
        self._place: _Place | None = None
        self._forgotten: set[Hashable] = set()

    def __call__(self, item: Item) -> Tensor:
        """Train on an item; returns its loss."""
        place = None if item.real is None or self.gave_up else self._place_of(item)
        if place is None:
            return self.step(item)
        fixed = place.put(item)
        if place.replay is not None:
            return place.replay()
        place.warm_steps += 1
        if place.warm_steps <= WARM_STEPS:
            return self.recorder.warm(lambda: self.step(fixed))
        try:
            place.replay = self.recorder.record(self._again(fixed))
        except Exception as error:
            self._give_up(error)
        return self.step(item) if place.replay is None else place.replay()

    def _place_of(self, item: Item) -> "_Place | None":
        """Where items of this shape are put; None for a shape that was forgotten."""
        shape = layout(item)
        if shape in self._forgotten:
            return None
        if self._place is None or self._place.shape != shape:
            self._forget()
            self._place = _Place(item, shape)
        return self._place

    def _again(self, fixed: Item) -> Callable[[], Tensor]:
        """The step on an item, each time without what was derived of it before."""
        tensors = tensors_of(fixed)
        return lambda: self.step(like(fixed, tensors))

    def _forget(self) -> None:
        """Give back the memory of the shape there was, if there was one."""
        if self._place is not None:
            self._forgotten.add(self._place.shape)
            self._place = None
            if self.let_go is not None:
                self.let_go()
            self.recorder.forget()

    def _give_up(self, error: Exception) -> None:
        self.gave_up = True
        self._place = None
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        told = "steps are not captured, which is slower: %s"
        logging.getLogger("gnnak").warning(told, reason)


class _Place:
    """Fixed tensors for the items of one shape, and the step captured with them.

    Args:
        item: An item of this shape.
        shape: Its layout.
    """

    def __init__(self, item: Item, shape: Hashable) -> None:
        self.shape = shape
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
        return like(item, self.tensors)
