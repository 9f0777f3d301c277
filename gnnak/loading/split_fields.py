"""Split many index tensors of a window into batches at once, without padding.

A window is several consecutive batches, assembled as one large batch. Splitting one
tensor takes several operations of PyTorch, and an operation takes the host longer than
the GPU. Here, one operation copies the parts of all tensors into one block of memory,
and another one shifts all indices. What is returned are views of that block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import torch
from torch import Tensor

from gnnak.loading.index_fields import (
    Field,
    Key,
    lines_of,
    rows_per_batch,
    shift_each,
)


def split_fields(
    fields: Mapping[Key, Field], starts: Mapping[str, Sequence[int]]
) -> list[dict[Key, Tensor]]:
    """Split the fields of a window by batch, without padding.

    In each batch, indices count from 0. The parts are views of one new tensor.

    Args:
        fields: The fields; there is at least one.
        starts: For each axis, the position of the first row of each batch, and at the
            end the position after the last row. Rows before and after these are left
            out.
    """
    counts = rows_per_batch(starts)
    if not counts["graphs"]:
        return []
    ends = _last_pointers(fields, starts)
    pieces: list[Tensor] = []
    sizes: list[int] = []
    shifts: list[int] = []
    for field in fields.values():
        size, named = counts[field.axis], field.refers_to
        for line in lines_of(field):
            rows = _between(line, starts[field.axis])
            if field.kind == "pointers":
                parts = torch.split_with_sizes(rows, size)
                pieces += (piece for part in parts for piece in (part, next(ends)))
                sizes += (count + 1 for count in size)
            else:
                pieces.append(rows)
                sizes += size
            shifts += [0] * len(size) if named is None else starts[named][:-1]
    memory = torch.cat(pieces)
    parts = torch.split_with_sizes(memory, sizes)
    given = zip(parts, shifts, sizes, strict=True)
    shift_each([(part, shift) for part, shift, size in given if shift and size])
    return _by_batch(fields, counts, iter(parts))


def _by_batch(
    fields: Mapping[Key, Field],
    counts: Mapping[str, list[int]],
    parts: Iterator[Tensor],
) -> list[dict[Key, Tensor]]:
    """Return the fields of each batch, given the parts of each line of each field."""
    found = []
    for field in fields.values():
        sizes = counts[field.axis]
        views = [next(parts) for _ in sizes]
        if field.kind == "edges":
            # The line of targets comes right after the line of sources.
            stride, pairs = (sum(sizes), 1), zip(views, sizes, strict=True)
            views = [source.as_strided((2, n), stride) for source, n in pairs]
            parts = islice(parts, len(sizes), None)
        found.append(views)
    return [dict(zip(fields, each, strict=True)) for each in zip(*found, strict=True)]


def _between(line: Tensor, starts: Sequence[int]) -> Tensor:
    """Return the rows of all batches, without those before and after."""
    begin, end = starts[0], starts[-1]
    return line if line.numel() == end - begin else line[begin:end]


def _last_pointers(
    fields: Mapping[Key, Field], starts: Mapping[str, Sequence[int]]
) -> Iterator[Tensor]:
    """Return the last entry of the row pointer of each batch, for all such fields."""
    numbers: list[int] = []
    for field in fields.values():
        if field.kind == "pointers" and field.refers_to is not None:
            numbers += starts[field.refers_to][1:]
    if not numbers:
        return iter(())
    device = next(iter(fields.values())).value.device
    host = torch.tensor(numbers, device="cpu")
    return iter(host.to(device, non_blocking=True).split(1))
