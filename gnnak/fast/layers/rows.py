"""Rows of all copies: kept for the backward pass, or made again there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from gnnak.fast.kernels.records import Moments

Make = Callable[..., Tensor]


class Recompute(NamedTuple):
    """How rows are made again from smaller tensors, or from such as are kept anyway."""

    make: Make
    """Makes them of the tensors; it holds no rows itself."""
    tensors: tuple[Tensor | None, ...]
    """What is kept in place of the rows."""
    owned: bool = False
    """Whether those who ask have the rows for themselves, and may write over them."""
    alone: Make | None = None
    """The same as `make`, if that holds other rows beside, which this does not: for
    those who hold the rows themselves."""


class Rows(NamedTuple):
    """Rows of all copies."""

    values: Tensor
    """[m, c]."""
    moments: Moments | None = None
    """What is known of them; a norm computes what is not."""
    again: Recompute | None = None
    """How they are made again; None = they are kept."""


class Once:
    """Makes rows again at most once in a backward pass: they are held until let go.

    Where a backward pass ends before that, as it was asked for few gradients, they are
    held as long as what it would have gone on with.

    Args:
        make: Makes them.
    """

    def __init__(self, make: Make) -> None:
        self.make, self.holds = make, False
        self._made: Tensor | None = None

    def __call__(self, *tensors: Tensor | None) -> Tensor:
        """The rows; held only if `holds`, where somebody will let them go."""
        made = self.make(*tensors) if self._made is None else self._made
        if self.holds:
            self._made = made
        return made

    def release(self) -> None:
        """Hold nothing, until they are made once more."""
        self._made = None


def to_save(values: Tensor, again: Recompute | None) -> tuple[Tensor | None, ...]:
    """What `save_for_backward` is given for rows, the last ones of its arguments."""
    return (values,) if again is None else again.tensors


def maker(again: Recompute | None) -> Make | None:
    """What `kept` is given: a context that had the tensors, too, would keep them."""
    return None if again is None else again.make


def kept(saved: Sequence[Tensor | None], make: Make | None) -> Tensor:
    """The rows, from what `to_save` said."""
    if make is not None:
        return make(*saved)
    (values,) = saved
    assert values is not None
    return values


def can_overwrite(again: Recompute | None) -> bool:
    """Whether a gradient of rows may be written over them, once they are made again.

    For kernels that read a row before they write its gradient.
    """
    return again is not None and again.owned


def side_by_side(rows: Tensor) -> Tensor:
    """The same numbers, those of a row next to each other in memory."""
    return rows if rows.stride(1) == 1 else rows.contiguous()
