"""Rows that are made again early, beside kernels on nodes that leave a GPU idle.

The gradient of a layer goes through its nodes first, in kernels that are small where a
batch is, and then to the copies, whose states are made again for it. Neither waits for
the other.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from gnnak.nn.fused.rows import Again, Make
from gnnak.nn.lanes import Lanes

MOST = 2**25
"""Bytes of rows that are made early: more keep a GPU busy, and take memory of their own
there."""


class Early:
    """Makes rows again when it is told to begin, or else when they are asked for.

    Args:
        make: Makes them of the tensors.
        tensors: What they are made of.
    """

    def __init__(self, make: Make, tensors: tuple[Tensor | None, ...]) -> None:
        self.make, self.tensors = make, tensors
        self._made: tuple[Lanes, Tensor] | None = None

    def begin(self, device: torch.device) -> None:
        """Make them, in a lane of their own; nothing where lanes do not part."""
        tensors, self.tensors = self.tensors, ()
        lanes = Lanes(device)
        if not tensors or not lanes.parted:
            return
        with lanes.beside():
            self._made = lanes, self.make(*tensors)

    def __call__(self, *tensors: Tensor | None) -> Tensor:
        """The rows."""
        if self._made is None:
            return self.make(*tensors)
        (lanes, rows), self._made = self._made, None
        lanes.join()
        return rows


class EarlyRows:
    """The rows of a layer that can be made early."""

    def __init__(self) -> None:
        self.all: list[Early] = []

    def before(self, states: Tensor) -> None:
        """Let them be made as soon as the gradient of these states is known.

        Args:
            states: What the layer gives.
        """
        found, self.all = self.all, []

        def begin(grad: Tensor) -> None:
            for early in found:
                early.begin(grad.device)

        if found and states.requires_grad:
            states.register_hook(begin)


_rows: ContextVar[EarlyRows | None] = ContextVar("early", default=None)


@contextmanager
def early_rows() -> Iterator[EarlyRows]:
    """Inside, notes which rows can be made early in the backward pass."""
    rows = EarlyRows()
    token = _rows.set(rows)
    try:
        yield rows
    finally:
        _rows.reset(token)


def maybe_early(again: Again, values: Tensor) -> Again:
    """The same, made early where that is asked for and of use.

    Args:
        again: How rows are made again.
        values: The rows.
    """
    rows = _rows.get()
    if rows is None or not values.requires_grad or values.nbytes > MOST:
        return again
    early = Early(again.make, again.tensors)
    rows.all.append(early)
    return again._replace(make=early)
