"""A step of training, captured for a few shapes of batches and then replayed.

On a GPU a step is hundreds of kernels, and launching them takes longer than running
them; replayed as one CUDA graph they are launched together. A graph reads and writes
always the same memory: what a step is given is copied into the tensors it was captured
with.
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
WARM_STEPS, WARM_STEPS_MORE = 3, 1
"""Steps of the largest shape, and of others, before the one that is captured: they load
kernels and make states."""


class CapturedStep:
    """Calls a step for each item, replayed where it can be; each item counts once.

    Items that are not padded hardly ever have the same shape: for them, the step is
    simply called, as it is for the first few of each shape. Should a step resist
    capture, it is called from then on.

    Memory is held for the largest shape, and those that are captured after it and fit
    inside of it use the same. For one that does not fit, all that was captured is given
    back before its first step. A loader's largest shape only grows, and one that was
    outgrown never comes back. If one does come back, its items are trained on as they
    are: no shape is the largest twice, so that shapes by turns end in steps of which
    some are replayed and the others called.

    Args:
        step: Trains on an item and returns the detached loss. All that it reads and
            may change between steps is in tensors of the item, all of whose sizes
            follow from its shape, or stays where it is in memory.
        recorder: What captures.
        release: Lets go of what a step leaves in the memory it was captured with, such
            as gradients; None if it leaves nothing.
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
        self._places: dict[Shape, _StaticBuffers] = {}
        self._outgrown: set[Shape] = set()

    def __call__(self, item: Item) -> Tensor:
        """Train on an item; returns its loss."""
        place = None if item.real is None or self.gave_up else self._place_of(item)
        if place is None:
            return self.step(item)
        place.put(item)
        if place.replay is not None:
            return place.replay()
        fixed = like(item, place.tensors)
        if place.warm_steps:
            place.warm_steps -= 1
            return self.recorder.warm(lambda: self.step(fixed))
        try:
            place.replay = self.recorder.record(self._again(fixed))
        except Exception as error:
            self._give_up(error)
        return self.step(item) if place.replay is None else place.replay()

    def _place_of(self, item: Item) -> "_StaticBuffers | None":
        """Where items of this shape are put; None for a shape that has no place."""
        assert item.real is not None
        shape = item.real.shape
        if shape in self._places:
            return self._places[shape]
        tensors = tensors_of(item)
        if self._largest is None or not self._largest.holds(tensors):
            if shape in self._outgrown:
                return None
            self._forget()
            place = _StaticBuffers(
                [torch.empty_like(tensor) for tensor in tensors], WARM_STEPS
            )
            self._largest, self._places = place, {shape: place}
            return place
        if self._largest.replay is None:
            return None
        self._places[shape] = _StaticBuffers(
            self._largest.parts_like(tensors), WARM_STEPS_MORE
        )
        return self._places[shape]

    def _again(self, fixed: Item) -> Callable[[], Tensor]:
        """The step on an item, each time without what was derived of it before."""
        tensors = tensors_of(fixed)
        return lambda: self.step(like(fixed, tensors))

    def _forget(self) -> None:
        """Give back the memory of the shapes there were, if there were some."""
        if self._largest is None:
            return
        self._outgrown |= self._places.keys()
        self._largest, self._places = None, {}
        if self.release is not None:
            self.release()
        self.recorder.forget()

    def _give_up(self, error: Exception) -> None:
        self.gave_up = True
        self._forget()
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        told = "steps are not captured, which is slower: %s"
        logging.getLogger("gnnak").warning(told, reason)


class _StaticBuffers:
    """Fixed tensors for the items of one shape, and the step captured with them.

    Args:
        tensors: Where those of an item are put, in the order of `tensors_of`.
        warm_steps: How many steps there are before the one that is captured.
    """

    def __init__(self, tensors: list[Tensor], warm_steps: int) -> None:
        self.tensors, self.warm_steps = tensors, warm_steps
        self.replay: Callable[[], Tensor] | None = None
        by_type = defaultdict(list)
        for position, tensor in enumerate(tensors):
            by_type[tensor.dtype].append(position)
        self._by_type = [
            (positions, [tensors[position] for position in positions])
            for positions in by_type.values()
        ]

    def put(self, item: Item) -> None:
        """Copy an item in, tensors of one type at once."""
        given = tensors_of(item)
        assert len(given) == len(self.tensors), "an item of this shape has other parts"
        for positions, tensors in self._by_type:
            torch._foreach_copy_(tensors, [given[position] for position in positions])

    def holds(self, tensors: list[Tensor]) -> bool:
        """Whether there is room for such tensors in the place of these."""
        if len(tensors) != len(self.tensors):
            return False
        pairs = zip(tensors, self.tensors, strict=True)
        return all(a.dtype == b.dtype and a.numel() <= b.numel() for a, b in pairs)

    def parts_like(self, tensors: list[Tensor]) -> list[Tensor]:
        """Tensors of these sizes, in the memory of the ones here."""
        pairs = zip(tensors, self.tensors, strict=True)
        return [here.view(-1)[: a.numel()].view(a.shape) for a, here in pairs]
