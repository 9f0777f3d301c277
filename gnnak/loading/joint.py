"""Split many index tensors of a window into batches at once, with padding.

As in `split_fields`, the parts of all tensors are copied into one block of memory, but
with padding after each part. Batches with and without padding are views of that block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Generic, NamedTuple

import torch
from torch import Tensor

from gnnak.loading.index_fields import (
    Field,
    Key,
    lines_of,
    rows_per_batch,
    shift_each,
)

ALIGNMENT = 2
"""Tensors start at a multiple of this number of int64 values (16 bytes), since Triton
compiles another version of some kernels for tensors that do not."""


class _Part(NamedTuple):
    """Where one batch has its part of a field, in the block of memory."""

    begin: int
    """Position of the first entry."""
    lines: int
    """2 for an `edge_index`: a line of sources and a line of targets. Else 1."""
    real: int
    """Number of entries of a line, without padding."""
    size: int
    """Number of entries of a line, with padding."""


class Joint(Generic[Key]):
    """The fields of all batches of a window, in one block of memory.

    In each batch, indices count from 0, and padding comes after the real entries.
    Padding indices refer to padding rows only, and are spread evenly over these. CSR
    row pointers are padded with empty groups.

    Args:
        fields: The fields; there is at least one.
        starts: For each axis, the position of the first row of each batch, and at the
            end the number of all rows.
        sizes: For each axis, the number of rows of each batch with padding. Batches at
            the end, for which there is no number, are left out.
    """

    def __init__(
        self,
        fields: Mapping[Key, Field],
        starts: Mapping[str, Sequence[int]],
        sizes: Mapping[str, Sequence[int]],
    ) -> None:
        counts = rows_per_batch(starts)
        lines = {key: _split_lines(field, counts) for key, field in fields.items()}
        block = _Block()
        self._parts: list[dict[Key, _Part]] = []
        for batch in range(len(sizes["graphs"])):
            parts = {}
            for key, field in fields.items():
                named, pointer = field.refers_to, field.kind == "pointers"
                count, size = counts[field.axis][batch], sizes[field.axis][batch]
                room = base = shift = 0
                if named is not None:
                    base, shift = counts[named][batch], starts[named][batch]
                    room = 0 if pointer else sizes[named][batch] - base
                size += pointer
                parts[key] = _Part(block.end, len(lines[key]), count + pointer, size)
                for line in lines[key]:
                    block.add(line[batch], count, shift)
                    block.pad(size - count, room, base)
                block.align()
            self._parts.append(parts)
        self._memory = block.allocate()

    def padded(self) -> list[dict[Key, Tensor]]:
        """Return the fields of each batch, with padding."""
        every = [part for parts in self._parts for part in parts.values()]
        spans = [(part.begin, part.begin + part.lines * part.size) for part in every]
        views = iter(_views(self._memory, spans))
        return [
            {key: _as_lines(next(views), part) for key, part in parts.items()}
            for parts in self._parts
        ]

    def trimmed(self) -> list[dict[Key, Tensor]]:
        """Return the fields of each batch, without padding."""
        every = [part for parts in self._parts for part in parts.values()]
        # Of an `edge_index`, only the padding of the second line can be left out here.
        spans = [
            (part.begin, part.begin + (part.lines - 1) * part.size + part.real)
            for part in every
        ]
        views = iter(_views(self._memory, spans))
        return [
            {key: _trimmed_lines(next(views), part) for key, part in parts.items()}
            for parts in self._parts
        ]


class _Block:
    """Collects the contents of a block of memory, and then allocates it.

    Attributes:
        end: Number of int64 values so far.
    """

    def __init__(self) -> None:
        self.end = 0
        self._pieces: list[Tensor | None] = []
        self._shifts: list[tuple[tuple[int, int], int]] = []
        self._padding: list[list[int]] = []

    def add(self, values: Tensor, count: int, shift: int) -> None:
        """Append values, from which a number is subtracted.

        Args:
            values: The values, [count].
            count: How many values there are.
            shift: The number to subtract from each value.
        """
        self._pieces.append(values)
        if shift and count:
            self._shifts.append(((self.end, self.end + count), shift))
        self.end += count

    def pad(self, count: int, room: int, base: int) -> None:
        """Append `count` numbers that are spread evenly over base..base+room-1."""
        self._pieces.append(None)
        self._padding.append([count, room, max(count, 1), base])
        self.end += count

    def align(self) -> None:
        """Append numbers without meaning, so that the next values are aligned."""
        missing = -self.end % ALIGNMENT
        self._padding[-1][0] += missing
        self.end += missing

    def allocate(self) -> Tensor:
        """Return the block of memory with its contents."""
        device = next(piece for piece in self._pieces if piece is not None).device
        counts = [count for count, *_ in self._padding]
        padding = iter(torch.split_with_sizes(self._numbers(device), counts))
        memory = torch.cat([next(padding) if p is None else p for p in self._pieces])
        views = _views(memory, [span for span, _ in self._shifts])
        numbers = (number for _, number in self._shifts)
        shift_each(list(zip(views, numbers, strict=True)))
        return memory

    def _numbers(self, device: torch.device) -> Tensor:
        """Return the numbers of all calls of `pad`, one after the other."""
        counts = [count for count, *_ in self._padding]
        first = list(accumulate(counts, initial=0))
        table = [*zip(*self._padding, strict=True), first[:-1]]
        given = torch.tensor(table, device="cpu").to(device, non_blocking=True)
        call = torch.repeat_interleave(given[0], output_size=first[-1])
        _, room, divisor, base, start = given.index_select(1, call)
        place = torch.arange(first[-1], device=device) - start
        return place.mul_(room).div_(divisor, rounding_mode="floor").add_(base)


def _split_lines(
    field: Field, counts: Mapping[str, list[int]]
) -> list[tuple[Tensor, ...]]:
    """Split the lines of a field (two for edges) by batch, without padding."""
    sizes = counts[field.axis]
    # A row pointer has one more entry, the number of all rows.
    sizes = [*sizes, field.value.size(-1) - sum(sizes)]
    return [torch.split_with_sizes(line, sizes) for line in lines_of(field)]


def _views(memory: Tensor, spans: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Return `memory[begin:end]` for several spans, in one operation.

    Args:
        memory: A vector.
        spans: The begin and end of each span; spans are sorted and do not overlap.
    """
    sizes: list[int] = []
    numbers, at = [], 0
    for begin, end in spans:
        if begin > at:
            sizes.append(begin - at)
        numbers.append(len(sizes))
        sizes.append(end - begin)
        at = end
    parts = torch.split_with_sizes(memory, [*sizes, memory.numel() - at])
    return [parts[number] for number in numbers]


def _as_lines(view: Tensor, part: _Part) -> Tensor:
    """Return a part with padding in its shape: two lines for edges."""
    return view if part.lines == 1 else view.view(part.lines, part.size)


def _trimmed_lines(view: Tensor, part: _Part) -> Tensor:
    """Return a part without padding in its shape: two lines for edges."""
    if part.lines == 1:
        return view
    return view.as_strided((part.lines, part.real), (part.size, 1))
