"""Split the fields of a window into batches, and pad each batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Generic, NamedTuple

import torch
from torch import Tensor

from gnnak.backend import operation
from gnnak.graphs.real import BATCH_AXES, RealCounts
from gnnak.loading.items import Shape
from gnnak.loading.splitters import Splitter
from gnnak.loading.windows import (
    Field,
    Key,
    Window,
    lines_of,
    rows_per_batch,
    shift_each,
)


@dataclass(frozen=True, eq=False)
class Span:
    """Where the rows of each of b batches are in a tensor with the rows of all batches.

    There is one `Span` for tensors with a row per node, one for tensors with a row per
    edge, and so on.
    """

    first: Tensor
    """[b]: position of the first row of each batch, before padding."""
    count: Tensor
    """[b]: number of rows of each batch before padding."""
    size: Tensor
    """[b]: number of rows of each batch after padding."""
    most: int
    """The maximum of `size`: the number of rows of the largest padded batch."""


@operation
def pad_rows(
    value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    """Return the rows of each batch, padded at the end to `size` rows, [b, size, ...].

    Args:
        value: The r rows of all b batches, [r, ...].
        first: Position in `value` of the first row of each batch, [b].
        count: Number of rows of each batch, [b].
        size: Number of rows of each batch after padding.
        padding: Value of the padding rows.
    """
    found, is_padding = _gather(value, first, count, size)
    is_padding = is_padding.view(*is_padding.shape, *[1] * (value.dim() - 1))
    return found.masked_fill_(is_padding, padding)


@operation
def pad_numbers(values: list[Tensor], rows: Span, named: Span, to_last: bool) -> Tensor:
    """Split index tensors, such as the two rows of `edge_index`, by batch and pad them.

    The resulting indices count from the first row of their own batch. Padding indices
    refer to padding rows only, and are spread evenly over the padding rows.

    Args:
        values: The v index tensors, such as the source and target nodes of all edges,
            [r] each, with indices counted over all batches.
        rows: Where the entries of each of b batches are in an index tensor; for
            `edge_index`, where the edges of each batch are.
        named: Where the rows are that the indices refer to; for `edge_index`, where the
            nodes of each batch are.
        to_last: If True, all padding indices refer to the last padding row instead.

    Returns:
        One row per batch, [b, v * rows.most]: the padded entries of the first index
        tensor, then those of the second, and so on. The rest of a row is undefined.
    """
    place = torch.arange(rows.most, device=rows.first.device)
    count, size, real = rows.count[:, None], rows.size[:, None], named.count[:, None]
    spread = named.size[:, None] - 1
    if not to_last:
        spread = (place - count) * (spread + 1 - real) // (size - count) + real
    out = place.new_empty(rows.first.numel(), len(values) * rows.most)
    for number, value in enumerate(values):
        found, is_padding = _gather(value, rows.first, rows.count, rows.most)
        found = torch.where(is_padding, spread, found - named.first[:, None])
        # Entries beyond `size` are overwritten by the next index tensor.
        out.scatter_(1, number * size + place, found)
    return out


@operation
def pad_pointers(
    value: Tensor, first: Tensor, end: Tensor, size: int, rows_first: Tensor
) -> Tensor:
    """Split a CSR row pointer by batch, and pad it with empty groups.

    The pointer tells where each of k groups of rows starts. The groups of a batch are
    consecutive, and so are the rows of a batch.

    Args:
        value: The pointer for all b batches, [k + 1].
        first: Position of the first group of each batch, [b].
        end: Position after the last group of each batch, [b].
        size: Number of groups of each batch after padding.
        rows_first: Position of the first row of each batch, [b]; subtracted from the
            pointer of the batch, so that the pointer starts at 0.

    Returns:
        The pointer of each batch, [b, size + 1].
    """
    key = torch.arange(size + 1, device=value.device)
    key = torch.minimum(first[:, None] + key, end[:, None])
    return value[key] - rows_first[:, None]


def _gather(
    value: Tensor, first: Tensor, count: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """Return the rows of each batch, extended to `size` rows, and a mask.

    The mask is True for the added rows, whose values are undefined. Arguments as in
    `pad_rows`.
    """
    if not value.size(0):
        value = value.new_zeros(1, *value.shape[1:])
    place = torch.arange(size, device=first.device)
    last = (first + count).clamp(min=1) - 1
    row = torch.minimum(first[:, None] + place, last[:, None])
    return value[row], place >= count[:, None]


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


class PaddingSplitter(Splitter):
    """Splits a window, that is, several batches assembled as one, and pads each batch.

    Padding rows come after the real rows. Indices in padding rows refer to padding rows
    only, so padding never mixes with real data. All padding nodes belong to the last
    graph of the batch. `Splitter` describes the arguments of the methods.

    Args:
        window: The batches.
        shapes: The sizes to pad each batch to. Only the first `len(shapes)` batches are
            returned. All shapes must have the same number of graphs.
    """

    def __init__(self, window: Window, shapes: Sequence[Shape]) -> None:
        assert len({shape.graphs for shape in shapes}) == 1
        self.window, self.shapes, device = window, shapes, window.batch.device
        axes = list(window.starts)
        bounds = [window.starts[axis][: len(shapes) + 1] for axis in axes]
        sizes = [self.sizes(axis) for axis in axes]
        counts = [[end - begin for begin, end in pairwise(at)] for at in bounds]
        table = [[at[:-1] for at in bounds], [at[1:] for at in bounds], counts, sizes]
        given = torch.tensor(table, device="cpu").to(device, non_blocking=True)
        first, ends, count, size = map(Tensor.unbind, given)
        self.end = dict(zip(axes, ends, strict=True))
        spans = map(Span, first, count, size, map(max, sizes))
        self.span = dict(zip(axes, spans, strict=True))
        real = torch.stack([self.span[axis].count for axis in BATCH_AXES], dim=1)
        self.counts = list(map(RealCounts, real))

    def sizes(self, axis: str) -> list[int]:
        """Return how many rows each padded batch has on an axis, such as "nodes"."""
        return [getattr(shape, axis) for shape in self.shapes]

    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Return, for each batch, its rows of `value`, followed by padding rows.

        If the values are indices, those in padding rows refer to padding.
        """
        if refers_to is not None:
            return [indices[0] for indices in self._indices([value], axis, refers_to)]
        span = self.span[axis]
        given = (span.first, span.count, span.most, padding)
        found = pad_rows(value, *given)
        return self._cropped(found, self.sizes(axis))

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Return, for each batch, its edges, followed by self loops as padding."""
        return self._indices([*value], axis, refers_to)

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Return, for each batch, its CSR row pointer, padded with empty groups.

        If the groups are graphs, the last group is not empty but contains all padding
        nodes.
        """
        span = self.span[keys]
        given = (span.first, self.end[keys], span.most, self.span[rows].first)
        found = pad_pointers(value, *given)
        if keys == "graphs":
            found[:, -1] = self.span["nodes"].size
        return self._cropped(found, [size + 1 for size in self.sizes(keys)])

    def together(self, fields: Mapping[Key, Field]) -> list[dict[Key, Tensor]]:
        """Split several int64 tensors by batch, into padded views of one new tensor."""
        return self.joint(fields).padded()

    def joint(self, fields: Mapping[Key, Field]) -> Joint[Key]:
        """Copy the parts of several int64 tensors, with padding, into one tensor."""
        sizes = {axis: self.sizes(axis) for axis in self.window.starts}
        return Joint(fields, self.window.starts, sizes)

    def real(self) -> Sequence[RealCounts]:
        """Return how many graphs, nodes and so on of each batch are not padding."""
        return self.counts

    def padded_to(self) -> Sequence[Shape]:
        """Return the shape that each batch is padded to."""
        return self.shapes

    def _indices(
        self, values: list[Tensor], axis: str, refers_to: str
    ) -> Sequence[Tensor]:
        """Split index tensors by batch, pad the parts, and stack them for each batch.

        Args:
            values: Index tensors of equal length, such as the sources and the targets
                of edges.
            axis: What each entry of the tensors stands for, such as "edges".
            refers_to: What the indices refer to, such as "nodes".
        """
        axes = self.span[axis], self.span[refers_to]
        found = pad_numbers(values, *axes, to_last=refers_to == "graphs")
        sizes = [len(values) * size for size in self.sizes(axis)]
        return [part.view(len(values), -1) for part in self._cropped(found, sizes)]

    def _cropped(self, found: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
        """Return the first `sizes[i]` entries of row i of `found`, for each batch i."""
        pairs, most = zip(found.unbind(), sizes, strict=True), found.size(1)
        return [part if size == most else part[:size] for part, size in pairs]
