"""Index tensors of a window (several consecutive batches), which are split by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeVar

import torch
from torch import Tensor

Key = TypeVar("Key")


@dataclass(frozen=True, eq=False)
class Field:
    """An int64 tensor of a window (several batches), which is split by batch."""

    value: Tensor
    """The r entries of all batches: [r]; [2, r] for "edges"; [r + 1] for "pointers"."""
    axis: str
    """What each entry stands for, such as "nodes"; for "pointers", what has a group."""
    refers_to: str | None = None
    """If the values are indices, what they refer to, such as "graphs"; for "pointers",
    what is grouped. None = the values are not indices, and padding is 0."""
    kind: Literal["rows", "edges", "pointers"] = "rows"
    """Whether the tensor is an `edge_index`, a CSR row pointer, or neither."""


def rows_per_batch(starts: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Return the number of rows of each batch, for each axis."""
    return {
        axis: [end - begin for begin, end in pairwise(at)]
        for axis, at in starts.items()
    }


def lines_of(field: Field) -> Sequence[Tensor]:
    """Return the lines of a field: sources and targets of edges, else one."""
    return field.value.unbind() if field.kind == "edges" else (field.value,)


def shift_each(parts: Sequence[tuple[Tensor, int]]) -> None:
    """Subtract a number from each of several tensors, in place and in one kernel."""
    if parts:
        tensors, numbers = zip(*parts, strict=True)
        torch._foreach_sub_(tensors, numbers)
