"""Split tensors of several batches by batch, with or without padding."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Generic, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from gnnak.backend import operation

Key = TypeVar("Key")


@dataclass(frozen=True, eq=False)
class Field:
    """One field of a window's batches, such as `edge_index`, as one int64 tensor."""

    value: Tensor
    """[r], or [2, r] if `kind` is "edges", or [r + 1] if `kind` is "pointers". All
    batches together have r entries."""
    axis: str
    """The axis of `value`: "nodes" if it has one element per node, "edges" if it is an
    `edge_index`. For CSR row pointers, the axis of the groups, such as "graphs"."""
    refers_to: str | None = None
    """The axis that the values index, such as "graphs"; for CSR row pointers, the axis
    of the grouped rows. If None, the values are not indices, and padding is 0."""
    kind: Literal["rows", "edges", "pointers"] = "rows"
    """Whether the tensor is an `edge_index`, a CSR row pointer, or neither ("rows")."""

    def lines(self) -> Sequence[Tensor]:
        return self.value.unbind() if self.kind == "edges" else (self.value,)


@operation
def pad_rows(
    value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    """Pad the rows of each of b batches to `size` rows; return [b, size, ...].

    `value` has the rows of all batches. `first` and `count`, [b], have the position of
    each batch's first row and its number of rows. Padding rows get the value `padding`.
    """
    if not value.size(0):
        value = value.new_zeros(1, *value.shape[1:])
    place = torch.arange(size, device=first.device)
    last = (first + count).clamp(min=1) - 1
    row = torch.minimum(first[:, None] + place, last[:, None])
    is_padding = place >= count[:, None]
    is_padding = is_padding.view(*is_padding.shape, *[1] * (value.dim() - 1))
    return value[row].masked_fill_(is_padding, padding)


ALIGNMENT = 2
"""Tensors start at a multiple of this number of int64 values (16 bytes), since Triton
compiles separate versions of some kernels for tensors that are not aligned."""


class _Part(NamedTuple):
    """The part of a `Joint`'s memory that stores one field of one batch."""

    begin: int
    lines: int
    """Number of lines: 2 for an `edge_index` (sources, targets), 1 for other fields."""
    real: int
    """Number of int64 values in each line, without padding."""
    size: int
    """Number of int64 values in each line, with padding."""

    def shaped(self, view: Tensor, trim: bool) -> Tensor:
        if self.lines == 1:
            return view
        return view.as_strided((2, self.real if trim else self.size), (self.size, 1))


class Joint(Generic[Key]):
    """The fields of all batches of a window, in one block of memory.

    The ends of padding edges, and other indices in padding, are spread evenly over the
    padding rows. The last graph has all padding nodes. Other padding graphs, and all
    other groups that are padding, are empty. `sizes` maps each axis to the number of
    rows of each batch, including any padding. Batches not in `sizes` are left out.
    """

    memory: Tensor
    """The block of memory, which `pack` allocates."""

    def __init__(
        self,
        fields: Mapping[Key, Field],
        starts: Mapping[str, Sequence[int]],
        sizes: Mapping[str, Sequence[int]],
    ) -> None:
        counts = {k: [end - i for i, end in pairwise(at)] for k, at in starts.items()}
        lines = {
            key: _split_lines(field, starts[field.axis][0], counts[field.axis])
            for key, field in fields.items()
        }
        block = self.block = _Block()
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
                if named == "graphs":
                    # All padding nodes are in the last graph.
                    base, room = sizes["graphs"][batch] - 1, 0
                real, full = count + pointer, size + pointer
                parts[key] = _Part(block.end, len(lines[key]), real, full)
                of_graphs = pointer and field.axis == "graphs"
                for line in lines[key]:
                    block.add(line[batch], count, shift)
                    block.pad(full - count - of_graphs, room, base)
                if of_graphs:
                    block.pad(1, 0, sizes["nodes"][batch])
                block.pad(-block.end % ALIGNMENT, 0, 0)
            self._parts.append(parts)

    def fields(self, trim: bool = False) -> list[dict[Key, Tensor]]:
        """Return the fields of each batch; `trim` removes padding."""
        every = [part for parts in self._parts for part in parts.values()]
        # Of an `edge_index`, a span contains the padding of the first line.
        lengths = [p.lines * p.size - trim * (p.size - p.real) for p in every]
        pairs = zip(every, lengths, strict=True)
        spans = [(part.begin, part.begin + length) for part, length in pairs]
        views = iter(_views(self.memory, spans))
        return [
            {key: part.shaped(next(views), trim) for key, part in parts.items()}
            for parts in self._parts
        ]


def pack(
    groups: Sequence[Mapping[Key, Field]],
    starts: Mapping[str, Sequence[int]],
    sizes: Mapping[str, Sequence[int]],
) -> list[Joint[Key]]:
    """Build a `Joint` for each dict of fields; compute the padding of all at once."""
    if not sizes["graphs"]:
        return []
    joints = [Joint(fields, starts, sizes) for fields in groups]
    device = next(iter(groups[0].values())).value.device
    padding = _padding([joint.block for joint in joints], device)
    for joint in joints:
        joint.memory = joint.block.allocate(padding)
    return joints


class _Block:
    """Collects int64 values, and allocates one block of memory for all of them."""

    def __init__(self) -> None:
        self.end = 0
        self._pieces: list[Tensor | None] = []
        self._shifts: list[tuple[tuple[int, int], int]] = []
        self.padding: list[tuple[int, int, int]] = []

    def add(self, values: Tensor, count: int, shift: int) -> None:
        """Append `count` values, and subtract `shift` from each value."""
        self._pieces.append(values)
        if shift and count:
            self._shifts.append(((self.end, self.end + count), shift))
        self.end += count

    def pad(self, count: int, room: int, base: int) -> None:
        """Append `count` numbers that are spread evenly over base..base+room-1."""
        if count:
            self._pieces.append(None)
            self.padding.append((count, room, base))
            self.end += count

    def allocate(self, padding: Iterator[Tensor]) -> Tensor:
        """Return a tensor of all values; `padding` yields the values for each `pad`."""
        memory = torch.cat([next(padding) if p is None else p for p in self._pieces])
        views = _views(memory, [span for span, _ in self._shifts])
        if views:
            torch._foreach_sub_(views, [number for _, number in self._shifts])
        return memory


def _padding(blocks: Sequence[_Block], device: torch.device) -> Iterator[Tensor]:
    """Compute the numbers that each call of `_Block.pad` appends, block by block."""
    calls = [call for block in blocks for call in block.padding]
    counts = [count for count, *_ in calls]
    first = list(accumulate(counts, initial=0))
    table = [*zip(*calls, strict=True), first[:-1]]
    given = torch.tensor(table, device="cpu").to(device, non_blocking=True)
    call = torch.repeat_interleave(given[0], output_size=first[-1])
    count, room, base, start = given.index_select(1, call)
    place = torch.arange(first[-1], device=device) - start
    place.mul_(room).div_(count, rounding_mode="floor").add_(base)
    return iter(torch.split_with_sizes(place, counts))


def _split_lines(
    field: Field, first: int, counts: Sequence[int]
) -> list[tuple[Tensor, ...]]:
    # The last part has the rows of later batches, and the end of a row pointer.
    sizes = [first, *counts, field.value.size(-1) - first - sum(counts)]
    return [torch.split_with_sizes(line, sizes)[1:] for line in field.lines()]


def _views(memory: Tensor, spans: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Return `memory[begin:end]` for sorted, disjoint spans, in one operation."""
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
