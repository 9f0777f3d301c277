"""A training step that is captured as a CUDA graph per batch shape, where possible."""

import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv

from gnnak.fast.layers.layer import is_always_fused
from gnnak.fast.step.recorder import Recorder
from gnnak.loading.items import Item, Shape, like, tensors_of
from gnnak.nn.uplift import GNNAK
from gnnak.optional import has_triton

SYNCHRONISING_CONVS = (GCNConv, GATConv)
"""PyG convs whose forward pass synchronises with the device: the host waits for the
number of self loops."""


def find_synchronising(network: nn.Module, precision: str = "32") -> nn.Module | None:
    """Return the first module of a network whose forward pass synchronises.

    A module that synchronises cannot be captured as a CUDA graph. Modules declare this
    by an attribute `synchronises`; `SYNCHRONISING_CONVS` lists convs of PyG, which do
    not have this attribute. A GNN-AK layer that is always fused never calls the convs
    inside it, so these convs are not checked.

    Args:
        network: The network, in training mode.
        precision: Training precision; layers are fused only for "32".

    Returns:
        The module; None if no module synchronises.
    """
    known = isinstance(network, SYNCHRONISING_CONVS)
    if getattr(network, "synchronises", known):
        return network
    fused = precision == "32" and has_triton()
    if isinstance(network, GNNAK) and fused and is_always_fused(network):
        return None
    for child in network.children():
        found = find_synchronising(child, precision)
        if found is not None:
            return found
    return None


Step = Callable[[Item], Tensor]
"""A training step: a function that trains on one item (a batch) and returns the
detached loss."""
FIRST_WARM_UP, WARM_UP = 3, 1
"""Number of uncaptured steps before a capture: `FIRST_WARM_UP` for the largest batch
shape, `WARM_UP` for each smaller shape. These steps compile and load kernels, and
allocate the optimiser states."""


class CapturedStep:
    """A training step that is captured as a CUDA graph per batch shape, and replayed.

    Each item (a batch) is trained on once: by a call of `step` or by a replay. `step`
    is called for items without a shape, whose sizes hardly ever repeat, and for the
    first items of each shape (warm-up). If a capture fails, `step` is called for all
    later items.

    Static buffers and graph memory are allocated for the largest shape, and smaller
    shapes share them. When an item does not fit into the buffers, all graphs and
    buffers are released, and capturing starts again with the item's shape as the
    largest. A shape whose buffers were released never becomes the largest again;
    otherwise two shapes could replace each other in turn for ever.

    Args:
        step: Trains on an item and returns the detached loss. Data that change between
            steps must be in tensors of the item, whose sizes depend only on the item's
            shape, or in other tensors at fixed addresses.
        recorder: Captures the step.
        release: Frees tensors that a step leaves in the graphs' memory, such as
            gradients; None if a step leaves no such tensors.

    Attributes:
        gave_up: Whether a capture has failed; after that, nothing is captured or
            replayed any more.
        reason: Why the capture failed; None if none has failed.
    """

    def __init__(
        self,
        step: Callable[[Item], Any],
        recorder: Recorder,
        release: Callable[[], object] | None = None,
    ) -> None:
        self.step, self.recorder, self.release = step, recorder, release
        self.gave_up = False
        self.reason: str | None = None
        self._largest: _StaticBuffers | None = None
        self._buffers: dict[Shape, _StaticBuffers] = {}
        self._released: set[Shape] = set()

    def __call__(self, item: Item) -> Any:
        """Train on an item (a batch) and return the loss.

        If a step for the item's shape was captured as a CUDA graph, replay the graph.
        """
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
        buffers.copy_in(item)
        if buffers.replay is not None:
            return buffers.replay()
        static = like(item, buffers.tensors)
        if buffers.warm_up:
            buffers.warm_up -= 1
            return self.warm_up(static)
        try:
            buffers.replay = self.record(static)
        except Exception as error:
            self._give_up(error)
        return self.step(item) if buffers.replay is None else buffers.replay()

    def _buffers_for(self, item: Item, shape: Shape) -> "_StaticBuffers | None":
        """Return the static buffers of a shape; allocate them when it first occurs.

        Returns:
            The buffers. None if the item must be trained on without buffers: either the
            largest shape is not captured yet, or the item does not fit into its buffers
            and the shape's own buffers were released before.
        """
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

    def warm_up(self, static: Item) -> Any:
        """Train on a static item (a batch in static buffers) without a capture."""
        return self.recorder.warm_up(lambda: self.step(static))

    def record(self, static: Item) -> Callable[[], Any]:
        """Capture the step on a static item; return a function that replays it."""
        return self.recorder.record(self._repeatable(static))

    def _repeatable(self, static: Item) -> Callable[[], Tensor]:
        """Return a function without arguments: the step on a batch in static buffers.

        The function is meant to be captured. Each call rebuilds the item from its
        tensors, so that values which the step caches in the item are recomputed.

        Args:
            static: An item (a batch) whose tensors are static buffers.
        """
        tensors = tensors_of(static)
        return lambda: self.step(like(static, tensors))

    def _release_all(self) -> None:
        """Free the CUDA graphs and static buffers of all shapes."""
        if self._largest is None:
            return
        self._released |= self._buffers.keys()
        self._largest, self._buffers = None, {}
        if self.release is not None:
            self.release()
        self.recorder.release()

    def _give_up(self, error: Exception) -> None:
        """Free all CUDA graphs and buffers, log `error`, and never capture again."""
        self.gave_up = True
        self._release_all()
        self.reason = (str(error).splitlines() or [type(error).__name__])[0]
        message = "steps are not captured, which is slower: %s"
        logging.getLogger("gnnak").warning(message, self.reason)


class _StaticBuffers:
    """Tensors at fixed addresses, into which items (batches) of one shape are copied.

    Args:
        tensors: The buffers, one for each tensor of an item, in the order of
            `tensors_of`.
        warm_up: Number of uncaptured steps that remain before the capture.

    Attributes:
        replay: Replays the captured step on these buffers and returns the loss; None
            before the capture.
    """

    def __init__(self, tensors: list[Tensor], warm_up: int) -> None:
        self.tensors, self.warm_up = tensors, warm_up
        self.replay: Callable[[], Any] | None = None
        by_dtype = defaultdict(list)
        for position, tensor in enumerate(tensors):
            by_dtype[tensor.dtype].append(position)
        self._by_dtype = [
            (positions, [tensors[position] for position in positions])
            for positions in by_dtype.values()
        ]

    def copy_in(self, item: Item) -> None:
        """Copy the tensors of an item into the buffers, in one kernel per dtype."""
        given = tensors_of(item)
        assert len(given) == len(self.tensors), "an item of this shape has other fields"
        for positions, tensors in self._by_dtype:
            torch._foreach_copy_(tensors, [given[position] for position in positions])

    def can_hold(self, tensors: list[Tensor]) -> bool:
        """Return whether each tensor of an item fits into the buffer for this tensor.

        Args:
            tensors: The tensors of the item, in the order of `tensors_of`.
        """
        if len(tensors) != len(self.tensors):
            return False
        pairs = zip(tensors, self.tensors, strict=True)
        return all(a.dtype == b.dtype and a.numel() <= b.numel() for a, b in pairs)

    def views_like(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return views of the buffers that have the shapes of the given tensors.

        Args:
            tensors: For each buffer, a tensor that fits into it.
        """
        pairs = zip(tensors, self.tensors, strict=True)
        return [buffer.view(-1)[: a.numel()].view(a.shape) for a, buffer in pairs]
