"""Split a window into batches with their rooted subgraphs, padded or not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, repeat
from typing import Any

import torch
from torch import Tensor

from gnnak.graphs import GraphBatch
from gnnak.graphs.real import BATCH_AXES, RealCounts
from gnnak.loading.items import Item, Shape
from gnnak.loading.padding import (
    Field,
    Joint,
    Key,
    Span,
    pad_numbers,
    pad_pointers,
    pad_rows,
    split_fields,
)
from gnnak.loading.windows import Window
from gnnak.sampling.estimate import Filling, SampledSubgraphs
from gnnak.subgraphs.encodings import extracted_encodings
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import TENSORS, Axis, RootedSubgraphs


class _Splitter(ABC):
    """Splits a window into its batches.

    `rows`, `edges` and `pointers` split one tensor and return one part per batch. If
    the tensor contains indices, such as the nodes that edges join, the indices in a
    part count from the first row of that batch. `together` splits many tensors, which
    takes much less time than to split them one by one.
    """

    @abstractmethod
    def sizes(self, axis: str) -> Sequence[int]:
        """Return how many rows each batch has on an axis, including padding."""

    @abstractmethod
    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Split a tensor by batch along its first dimension.

        Args:
            value: The tensor with the r rows of all batches, [r, ...].
            axis: What each row of the tensor stands for, such as "nodes".
            refers_to: If the values are indices, what they refer to, such as "graphs";
                None if they are not indices.
            padding: Value of padding rows, if the values are not indices.
        """

    @abstractmethod
    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Split an `edge_index` with r edges, [2, r], by batch.

        The edges are entries of `axis`, "edges" or "edge_copies", and join rows of
        `refers_to`, "nodes" or "copies".
        """

    @abstractmethod
    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Split a CSR row pointer by batch.

        There is one group per entry of `keys`, such as "graphs", and the groups contain
        entries of `rows`, such as "nodes".
        """

    @abstractmethod
    def together(self, fields: Mapping[Key, Field]) -> list[dict[Key, Tensor]]:
        """Split several int64 tensors by batch, into views of one new tensor."""

    def real(self) -> Sequence[RealCounts | None]:
        """Return how many rows of each batch are not padding; None = no padding."""
        return [None] * len(self.sizes("graphs"))

    def padded_to(self) -> Sequence[Shape | None]:
        """Return the shape of each padded batch; None = no padding."""
        return [None] * len(self.sizes("graphs"))


class _SliceSplitter(_Splitter):
    """Splits a window without padding; earlier batches than `first_batch` are skipped.

    Each batch gets a slice of every tensor. If a tensor contains indices, the position
    of the batch's first row is subtracted, so that indices count from 0 in each batch.
    """

    def __init__(self, window: Window, first_batch: int = 0) -> None:
        self.starts = {axis: at[first_batch:] for axis, at in window.starts.items()}

    def sizes(self, axis: str) -> list[int]:
        return [end - begin for begin, end in pairwise(self.starts[axis])]

    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        if refers_to is not None:
            return self._alone(Field(value, axis, refers_to))
        sizes, before = self.sizes(axis), self.starts[axis][0]
        return value.split([before, *sizes, value.size(0) - before - sum(sizes)])[1:-1]

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        return self._alone(Field(value, axis, refers_to, "edges"))

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        return self._alone(Field(value, keys, rows, "pointers"))

    def together(self, fields: Mapping[Key, Field]) -> list[dict[Key, Tensor]]:
        return split_fields(fields, self.starts)

    def _alone(self, field: Field) -> list[Tensor]:
        """Split one tensor by batch, into views of a tensor of their own.

        The fields of a batch that users may change in place are split with this method:
        views of the same tensor share their version counter.
        """
        return [parts[None] for parts in self.together({None: field})]


class _PaddingSplitter(_Splitter):
    """Splits a window, and pads each batch; each tensor is split only once.

    Padding rows come after the real rows. Indices in padding rows refer to padding rows
    only, so padding never mixes with real data: padding edges are self loops, and all
    padding nodes belong to the last graph of the batch. A second call with the same
    tensor returns the parts of the first call, which `_TrimmingSplitter` needs.

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
        on_device = torch.tensor(table, device="cpu").to(device, non_blocking=True)
        first, ends, count, size = map(Tensor.unbind, on_device)
        self.end = dict(zip(axes, ends, strict=True))
        spans = map(Span, first, count, size, map(max, sizes))
        self.span = dict(zip(axes, spans, strict=True))
        real = torch.stack([self.span[axis].count for axis in BATCH_AXES], dim=1)
        self.counts = list(map(RealCounts, real))
        self._found: dict[tuple, tuple[Tensor, Sequence[Tensor]]] = {}
        self._joint: tuple[dict[Any, Tensor], Joint] | None = None

    def sizes(self, axis: str) -> list[int]:
        return [getattr(shape, axis) for shape in self.shapes]

    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        return self._once(self._pad_rows, value, axis, refers_to, padding)

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        return self._once(self._pad_edges, value, axis, refers_to)

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        return self._once(self._pad_pointers, value, keys, rows)

    def together(self, fields: Mapping[Key, Field]) -> list[dict[Key, Tensor]]:
        return self.joint(fields).padded()

    def joint(self, fields: Mapping[Key, Field]) -> Joint[Key]:
        """Copy several int64 tensors, with padding, into one tensor; do it once."""
        values = {key: field.value for key, field in fields.items()}
        if self._joint is None:
            sizes = {axis: self.sizes(axis) for axis in self.window.starts}
            self._joint = values, Joint(fields, self.window.starts, sizes)
        before, joint = self._joint
        assert before.keys() == values.keys()
        assert all(values[key] is value for key, value in before.items())
        return joint

    def real(self) -> Sequence[RealCounts]:
        return self.counts

    def padded_to(self) -> Sequence[Shape]:
        return self.shapes

    def _once(
        self, split: Callable[..., Sequence[Tensor]], value: Tensor, *how: Any
    ) -> Sequence[Tensor]:
        """Return the parts of a tensor; call `split(value, *how)` at first use."""
        key = (id(value), split.__name__, *how)
        if key not in self._found:
            # The tensor is stored, too, so that no other tensor gets its `id`.
            self._found[key] = (value, split(value, *how))
        return self._found[key][1]

    def _pad_rows(
        self, value: Tensor, axis: str, refers_to: str | None, padding: int
    ) -> Sequence[Tensor]:
        if refers_to is not None:
            return [indices[0] for indices in self._indices([value], axis, refers_to)]
        span = self.span[axis]
        found = pad_rows(value, span.first, span.count, span.most, padding)
        return self._cropped(found, self.sizes(axis))

    def _pad_edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        return self._indices([*value], axis, refers_to)

    def _pad_pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        span, rows_first = self.span[keys], self.span[rows].first
        found = pad_pointers(value, span.first, self.end[keys], span.most, rows_first)
        if keys == "graphs":
            # The other padding groups are empty; the last graph has all padding nodes.
            found[:, -1] = self.span["nodes"].size
        return self._cropped(found, [size + 1 for size in self.sizes(keys)])

    def _indices(
        self, values: list[Tensor], axis: str, refers_to: str
    ) -> Sequence[Tensor]:
        """Split index tensors by batch, pad the parts, and stack them for each batch.

        The tensors have one entry per row of `axis`, such as the sources and the
        targets of edges.
        """
        last = refers_to == "graphs"
        found = pad_numbers(values, self.span[axis], self.span[refers_to], to_last=last)
        sizes = [len(values) * size for size in self.sizes(axis)]
        return [part.view(len(values), -1) for part in self._cropped(found, sizes)]

    def _cropped(self, found: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
        """Return the first `sizes[i]` entries of row i of `found`, for each batch i."""
        pairs, most = zip(found.unbind(), sizes, strict=True), found.size(1)
        return [part if size == most else part[:size] for part, size in pairs]


class _TrimmingSplitter(_Splitter):
    """Splits a window without padding: returns views of the padded batches.

    `padded` splits the same window, with padding.
    """

    def __init__(self, padded: _PaddingSplitter) -> None:
        self.padded = padded

    def sizes(self, axis: str) -> list[int]:
        return self.padded.window.counts(axis)[: len(self.padded.shapes)]

    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        parts = self.padded.rows(value, axis, refers_to, padding)
        return [p[:n] for p, n in zip(parts, self.sizes(axis), strict=True)]

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        parts = self.padded.edges(value, axis, refers_to)
        return [p[:, :n] for p, n in zip(parts, self.sizes(axis), strict=True)]

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        parts = self.padded.pointers(value, keys, rows)
        return [p[: n + 1] for p, n in zip(parts, self.sizes(keys), strict=True)]

    def together(self, fields: Mapping[Key, Field]) -> list[dict[Key, Tensor]]:
        return self.padded.joint(fields).trimmed()


GROUPS: dict[Axis, tuple[str, str]] = {
    "subgraph": ("subgraphs", "copies"),
    "node": ("nodes", "copies"),
    "target": ("copies", "edge_copies"),
    "source": ("copies", "edge_copies"),
    "edge": ("edges", "edge_copies"),
}
"""For each grouping that `RootedSubgraphs.by` returns: what has a group, and what the
groups contain. For example, each subgraph has a group that contains its node copies."""
SAMPLED_GROUPS: dict[Axis, tuple[str, str]] = {
    "taker": ("nodes", "fillings"),
    "giver": ("subgraphs", "fillings"),
}
"""Two more groupings, in the form of `GROUPS`, for subgraphs sampled by SubgraphDrop.
They group the entries of the `Filling` by row, a node, and by column, a subgraph."""
Name = tuple[str, str]
"""Names a tensor of rooted subgraphs: what it is part of, and its name there."""


def split(window: Window, groups: bool = False, first_batch: int = 0) -> list[Item]:
    """Split a window into its batches, without padding.

    Args:
        window: The batches.
        groups: Whether to compute groupings, such as the nodes of each subgraph, now
            for all batches. If False, each batch computes them when they are needed.
        first_batch: Number of the first batch to return; earlier batches are skipped.
    """
    return _items(window, _SliceSplitter(window, first_batch), groups)


def split_padded(window: Window, shapes: Sequence[Shape]) -> list[Item]:
    """Split a window into its batches, and pad each batch.

    In each batch, padding comes after the real data. The last graph is padding and
    contains all padding nodes. Padding edges are self loops of padding nodes, and
    padding subgraphs contain only padding nodes.

    Args:
        window: The batches.
        shapes: The sizes to pad each batch to, larger than the batch on every axis
            (nodes, edges, ...). Only the first `len(shapes)` batches are returned.
    """
    return _padded(window, _PaddingSplitter(window, shapes))


def split_both(
    window: Window, shapes: Sequence[Shape]
) -> tuple[list[Item], list[Item]]:
    """Return the batches of a window with padding, and views of them without padding.

    Arguments as in `split_padded`.
    """
    splitter = _PaddingSplitter(window, shapes)
    padded = _padded(window, splitter)
    return padded, _items(window, _TrimmingSplitter(splitter), groups=True)


def _padded(window: Window, splitter: _PaddingSplitter) -> list[Item]:
    counts = [window.counts(axis) for axis in window.axes]
    sizes = [
        dict(zip(window.axes, rows, strict=True)) for rows in zip(*counts, strict=True)
    ]
    for rows, shape in zip(sizes, splitter.shapes, strict=False):
        assert shape.fits(rows), f"{rows} leave no padding rows in {shape}"
    items = _items(window, splitter, groups=True)
    return [replace(item, sizes=rows) for item, rows in zip(items, sizes, strict=False)]


def _items(window: Window, splitter: _Splitter, groups: bool) -> list[Item]:
    subgraphs: Iterator[RootedSubgraphs | None] = repeat(None)
    if window.subgraphs is not None:
        subgraphs = _records(window, window.subgraphs, splitter, groups)
    batches, shapes = _batches(window, splitter), splitter.padded_to()
    extra = _extra(window, splitter)
    parts = zip(batches, subgraphs, shapes, extra, strict=False)
    return [Item(*each) for each in parts]


def _extra(window: Window, splitter: _Splitter) -> Iterator[dict]:
    """Yield the further fields of each batch, by name."""
    if not window.extra:
        return repeat({})
    fields = window.extra.items()
    parts = {name: splitter.rows(rows, axis) for name, (axis, rows) in fields}
    per_batch = zip(*parts.values(), strict=True)
    return (dict(zip(parts, values, strict=True)) for values in per_batch)


def _batches(window: Window, splitter: _Splitter) -> Iterator[GraphBatch]:
    """Split the graphs of a window by batch, and yield those of each batch."""
    batch, targets = window.batch, "nodes" if window.node_targets else "graphs"
    return map(
        GraphBatch,
        repeat(None) if batch.x is None else splitter.rows(batch.x, "nodes"),
        splitter.edges(batch.edge_index, "edges", "nodes"),
        repeat(None)
        if batch.edge_attr is None
        else splitter.rows(batch.edge_attr, "edges"),
        repeat(None) if batch.y is None else splitter.rows(batch.y, targets),
        splitter.rows(batch.batch, "nodes", "graphs"),
        splitter.pointers(batch.ptr, "graphs", "nodes"),
        splitter.real(),
    )


def _records(
    window: Window, whole: RootedSubgraphs, splitter: _Splitter, groups: bool
) -> Iterator[RootedSubgraphs]:
    """Split the rooted subgraphs of a window by batch, and yield those of each."""
    fields = _fields(whole) | (_derived_fields(whole) if groups else {})
    found = splitter.together(fields)
    sampled: Iterator[dict[str, Any]] = repeat({})
    kind: type[RootedSubgraphs] = RootedSubgraphs
    if isinstance(whole, SampledSubgraphs):
        sampled, kind = _sampled_fields(whole, splitter, found), SampledSubgraphs
    parts = zip(
        found,
        splitter.sizes("nodes"),
        splitter.sizes("edges"),
        splitter.real(),
        sampled,
        _encodings(whole, splitter),
        strict=False,
    )
    for some, num_nodes, num_edges, real, more, encoded in parts:
        tensors: dict[str, Any] = {name: some["record", name] for name in TENSORS}
        sizes: dict[str, Any] = {"num_nodes": num_nodes, "num_edges": num_edges}
        record = kind(**tensors, **sizes, real=real, **more)
        derived = _derived(whole, some) if groups else {}
        yield record.assume(**window.known, **derived, encodings=dict(encoded))


def _fields(whole: RootedSubgraphs) -> dict[Name, Field]:
    """Return the int64 tensors of rooted subgraphs, to be split by batch."""
    fields: dict[Name, Field] = {
        ("record", "root"): Field(whole.root, "subgraphs", "nodes"),
        ("record", "node"): Field(whole.node, "copies", "nodes"),
        ("record", "subgraph"): Field(whole.subgraph, "copies", "subgraphs"),
        ("record", "hop"): Field(whole.hop, "copies"),
        ("record", "edge_index"): Field(
            whole.edge_index, "edge_copies", "copies", "edges"
        ),
        ("record", "edge"): Field(whole.edge, "edge_copies", "edges"),
    }
    if isinstance(whole, SampledSubgraphs):
        node, subgraph = whole.filling.node, whole.filling.subgraph
        fields["filling", "node"] = Field(node, "fillings", "nodes")
        fields["filling", "subgraph"] = Field(subgraph, "fillings", "subgraphs")
    return fields


def _sampled_fields(
    whole: SampledSubgraphs, splitter: _Splitter, found: Sequence[Mapping[Name, Tensor]]
) -> Iterator[dict[str, Any]]:
    """Yield, for each batch, a dict of the fields that only `SampledSubgraphs` has.

    `found` has, for each batch, its part of each of the `_fields`.
    """
    filling = map(
        Filling,
        [some["filling", "node"] for some in found],
        [some["filling", "subgraph"] for some in found],
        splitter.rows(whole.filling.weight, "fillings"),
    )
    held = splitter.rows(whole.held, "nodes", padding=1)
    covered = splitter.rows(whole.covered, "nodes", padding=1)
    for values in zip(held, covered, filling, strict=True):
        yield dict(zip(("held", "covered", "filling"), values, strict=True))


def _encodings(whole: RootedSubgraphs, splitter: _Splitter) -> Iterator[dict]:
    """Yield, for each batch, its structural encodings, as `extracted_encodings`."""
    cached = extracted_encodings(whole)
    if not cached:
        return repeat({})
    parts = [
        [each._replace(rows=rows) for rows in splitter.rows(each.rows, each.axis)]
        for each in cached.values()
    ]
    per_batch = zip(*parts, strict=True)
    return (dict(zip(cached, values, strict=True)) for values in per_batch)


def _grouped_by(whole: RootedSubgraphs) -> dict[Axis, tuple[str, str]]:
    sampled = isinstance(whole, SampledSubgraphs)
    return GROUPS | SAMPLED_GROUPS if sampled else GROUPS


def _derived_fields(whole: RootedSubgraphs) -> dict[Name, Field]:
    """Return `centroid` and all groupings (`by`) of subgraphs, to be split by batch."""
    fields: dict[Name, Field] = {
        ("centroid", ""): Field(whole.centroid, "subgraphs", "copies")
    }
    for axis, (keys, rows) in _grouped_by(whole).items():
        found = whole.by(axis)
        fields["ptr", axis] = Field(found.ptr, keys, rows, "pointers")
        if found.order is not None:
            fields["order", axis] = Field(found.order, rows, rows)
    return fields


def _derived(whole: RootedSubgraphs, found: Mapping[Name, Tensor]) -> dict[str, object]:
    """Return the arguments of `assume`, given a batch's part of `_derived_fields`."""
    groups = {
        axis: Groups(found["ptr", axis], found.get(("order", axis)))
        for axis in _grouped_by(whole)
    }
    return {"centroid": found["centroid", ""], "by": groups}
