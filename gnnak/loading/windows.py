"""Windows: several consecutive batches that are assembled together, and then split."""

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise, repeat
from typing import Any

import torch
from torch import Tensor

from gnnak.graphs import GraphBatch
from gnnak.graphs.real import BATCH_AXES, RealCounts
from gnnak.loading.items import Item, Shape
from gnnak.loading.padding import Field, pack, pad_rows
from gnnak.sampling.estimate import Filling, SampledSubgraphs
from gnnak.subgraphs.encodings import extracted_encodings
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import TENSORS, Axis, RootedSubgraphs

AXES = (*BATCH_AXES, "fillings")
"""The axes of a window, such as "graphs" and "nodes". The axis "fillings" has the
nonzero entries of `Filling`. On each axis, the rows of a batch are consecutive."""


@dataclass(frozen=True, eq=False)
class Window:
    """Several consecutive batches, assembled as one large batch."""

    batch: GraphBatch
    """The graphs of all batches, sorted by batch."""
    subgraphs: RootedSubgraphs | None
    """The rooted subgraphs, sorted by graph, or None if batches have no subgraphs."""
    node_targets: bool
    """Whether `batch.y` has one row per node, and not one row per graph."""
    starts: dict[str, list[int]]
    """Maps each axis to b + 1 numbers for b batches: the position of each batch's first
    row, and the number of all rows."""
    known: dict[str, int | bool]
    """Has two keys: `max_hop`, the largest hop of a node copy, and `in_order`, whether
    subgraph i is rooted at node i for all i."""
    extra: dict[str, tuple[str, Tensor]] = field(default_factory=dict)
    """Maps the name of a further field to its axis, such as "nodes", and its rows."""

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of this window; without subgraphs, only graphs, nodes and edges."""
        if self.subgraphs is None:
            return AXES[:3]
        return AXES if isinstance(self.subgraphs, SampledSubgraphs) else BATCH_AXES

    def counts(self, axis: str) -> list[int]:
        return [end - begin for begin, end in pairwise(self.starts[axis])]


def make_window(
    batch: GraphBatch,
    subgraphs: RootedSubgraphs | None,
    sizes: Sequence[int],
    node_targets: bool = False,
    extra: Mapping[str, tuple[str, Tensor]] | None = None,
    counts: Tensor | None = None,
) -> Window:
    """Make a window from several batches that were assembled as one large batch.

    `sizes` has the number of graphs of each batch. `counts`, on the CPU, has the number
    of nodes and of edges of each graph, [2, g]. With subgraphs, two more rows have the
    number of node copies and of edge copies, [4, g]. If `counts` is None, all numbers
    are read from the device, which synchronises. If `counts` is given, subgraph i must
    be rooted at node i, and `subgraphs.max_hop` must be cached.
    """
    ends = [0, *accumulate(sizes)]
    extra = dict(extra or {})
    if counts is not None:
        starts = _starts(ends, counts)
        deepest = -1 if subgraphs is None else subgraphs.max_hop
        known = {"max_hop": deepest, "in_order": subgraphs is not None}
        return Window(batch, subgraphs, node_targets, starts, known, extra)
    if isinstance(subgraphs, SampledSubgraphs) and not subgraphs.filling.in_order:
        subgraphs = _sort_filling(batch, subgraphs, ends)
    starts, known = _read_starts(batch, subgraphs, ends)
    return Window(batch, subgraphs, node_targets, starts, known, extra)


def _starts(ends: list[int], counts: Tensor) -> dict[str, list[int]]:
    before = torch.nn.functional.pad(counts.cumsum(dim=1), (1, 0))
    nodes, edges, *copies = before[:, ends].tolist()
    zeros = [0] * len(ends)
    found = [ends, nodes, edges, nodes if copies else zeros, *(copies or (zeros,) * 2)]
    return dict(zip(AXES, [*found, zeros], strict=True))


def _sort_filling(
    batch: GraphBatch, subgraphs: SampledSubgraphs, ends: list[int]
) -> SampledSubgraphs:
    filling = subgraphs.filling
    number = torch.searchsorted(
        _on_device(ends, batch), batch.batch[filling.node], right=True
    )
    filling = filling.at(torch.argsort(number, stable=True))
    encodings = extracted_encodings(subgraphs)
    return replace(subgraphs, filling=filling).assume(encodings=encodings)


def _read_starts(
    batch: GraphBatch, subgraphs: RootedSubgraphs | None, ends: list[int]
) -> tuple[dict[str, list[int]], dict[str, int | bool]]:
    """Compute the fields `starts` and `known` of a `Window`, which synchronises."""
    graphs = _on_device(ends, batch)
    first = {
        "graphs": graphs,
        "nodes": batch.ptr[graphs],
        "edges": torch.searchsorted(batch.batch[batch.edge_index[0]], graphs),
    } | dict.fromkeys(AXES[3:], torch.zeros_like(graphs))
    deepest, ordered = graphs.new_full((1,), -1), graphs.new_zeros(1)
    if subgraphs is not None:
        target = subgraphs.edge_index[1].contiguous()
        root = torch.searchsorted(batch.batch[subgraphs.root], graphs)
        copy = torch.searchsorted(subgraphs.subgraph, root)
        edge_copy = torch.searchsorted(target, copy)
        first |= {"subgraphs": root, "copies": copy, "edge_copies": edge_copy}
        if subgraphs.num_copies:
            deepest = subgraphs.hop.max()[None]
        sampled = isinstance(subgraphs, SampledSubgraphs)
        if not sampled and subgraphs.num_subgraphs == batch.num_nodes:
            nodes = torch.arange(batch.num_nodes, device=batch.device)
            ordered = (subgraphs.root == nodes).all().long()[None]
    if isinstance(subgraphs, SampledSubgraphs):
        graph = batch.batch[subgraphs.filling.node]
        first["fillings"] = torch.searchsorted(graph, graphs)
    *flat, max_hop, in_order = torch.cat([*first.values(), deepest, ordered]).tolist()
    rows = len(ends)
    starts = {
        axis: flat[index * rows : (index + 1) * rows]
        for index, axis in enumerate(first)
    }
    return starts, {"max_hop": max_hop, "in_order": bool(in_order)}


def _on_device(numbers: list[int], batch: GraphBatch) -> Tensor:
    host = torch.tensor(numbers, device="cpu")
    return host.to(batch.device, non_blocking=True)


Name = tuple[str, str]
"""Key of an int64 tensor of a window: its owner and name, such as ("graphs", "ptr")."""


class _Splitter:
    """Splits a window into batches without padding, from batch `first_batch` on."""

    numbers: list[dict[Name, Tensor]]
    """For each batch, its int64 tensors, such as `edge_index` and `node`, by `Name`."""
    real: Sequence[RealCounts | None]
    """The numbers of real rows of each batch; None for a batch without padding."""
    shapes: Sequence[Shape | None]
    """The shape of each batch; None for a batch without padding."""
    sizes: dict[str, list[int]]
    """For each axis, the number of rows of each batch, including padding."""

    def __init__(self, window: Window, groups: bool, first_batch: int) -> None:
        starts = {axis: at[first_batch:] for axis, at in window.starts.items()}
        self.before = {axis: at[0] for axis, at in starts.items()}
        self.sizes = {axis: window.counts(axis)[first_batch:] for axis in starts}
        self.shapes = [None] * len(self.sizes["graphs"])
        self.real = [None] * len(self.shapes)
        joints = pack(_fields(window, groups), starts, self.sizes)
        self.numbers = _merged(joint.fields() for joint in joints)

    def rows(self, value: Tensor, axis: str, padding: int = 0) -> Sequence[Tensor]:
        """Split the rows of `value` by batch; padding rows get the value `padding`."""
        sizes = [self.before[axis], *self.sizes[axis]]
        return value.split([*sizes, value.size(0) - sum(sizes)])[1:-1]


class _PaddingSplitter(_Splitter):
    """Splits a window, and pads each of its first `len(shapes)` batches to a shape."""

    def __init__(self, window: Window, shapes: Sequence[Shape]) -> None:
        self.window, self.shapes = window, shapes
        axes, until = list(window.starts), len(shapes)
        first = [window.starts[axis][:until] for axis in axes]
        counts = [window.counts(axis)[:until] for axis in axes]
        table = torch.tensor([first, counts], device="cpu")
        table = table.to(window.batch.device, non_blocking=True)
        self._first, self._count = (
            dict(zip(axes, rows, strict=True)) for rows in map(Tensor.unbind, table)
        )
        real = torch.stack([self._count[axis] for axis in BATCH_AXES], dim=1)
        self.real = list(map(RealCounts, real))
        self.sizes = {axis: [getattr(s, axis) for s in shapes] for axis in axes}
        self.joints = pack(_fields(window, True), window.starts, self.sizes)
        self.numbers = _merged(joint.fields() for joint in self.joints)
        self._found: dict[tuple, tuple[Tensor, Sequence[Tensor]]] = {}

    def rows(self, value: Tensor, axis: str, padding: int = 0) -> Sequence[Tensor]:
        key = (id(value), axis, padding)
        # `_TrimmingSplitter` needs the same parts again.
        if key not in self._found:
            sizes = self.sizes[axis]
            first, count, most = self._first[axis], self._count[axis], max(sizes)
            found = pad_rows(value, first, count, most, padding).unbind()
            parts = [
                p if n == most else p[:n] for p, n in zip(found, sizes, strict=True)
            ]
            # The tensor is stored, too, so that no other tensor gets its `id`.
            self._found[key] = value, parts
        return self._found[key][1]


class _TrimmingSplitter(_Splitter):
    """Splits a window into unpadded batches, which are views of the padded batches."""

    def __init__(self, padded: _PaddingSplitter) -> None:
        self.padded, counts = padded, padded.window.counts
        self.shapes = [None] * len(padded.shapes)
        self.real = [None] * len(padded.shapes)
        self.sizes = {axis: counts(axis)[: len(self.shapes)] for axis in padded.sizes}
        self.numbers = _merged(joint.fields(trim=True) for joint in padded.joints)

    def rows(self, value: Tensor, axis: str, padding: int = 0) -> Sequence[Tensor]:
        parts = self.padded.rows(value, axis, padding)
        return [p[:n] for p, n in zip(parts, self.sizes[axis], strict=True)]


def _merged(parts: Iterable[list[dict[Name, Tensor]]]) -> list[dict[Name, Tensor]]:
    return [dict(ChainMap(*of_batch)) for of_batch in zip(*parts, strict=True)]


GROUPS: dict[Axis, tuple[str, str]] = {
    "subgraph": ("subgraphs", "copies"),
    "node": ("nodes", "copies"),
    "target": ("copies", "edge_copies"),
    "source": ("copies", "edge_copies"),
    "edge": ("edges", "edge_copies"),
}
"""Maps each key of `RootedSubgraphs.by` to two axes: what it groups by, and what it
groups. For example, "subgraph" groups node copies by subgraph."""
SAMPLED_GROUPS: dict[Axis, tuple[str, str]] = {
    "taker": ("nodes", "fillings"),
    "giver": ("subgraphs", "fillings"),
}
"""Like `GROUPS`, for the entries of `SampledSubgraphs.filling`, by row or by column."""


def split(window: Window, groups: bool = False, first_batch: int = 0) -> list[Item]:
    """Split a window into its batches, from `first_batch` on, without padding."""
    return _items(window, _Splitter(window, groups, first_batch), groups)


def split_padded(window: Window, shapes: Sequence[Shape]) -> list[Item]:
    """Return the first `len(shapes)` batches of a window, each padded to its shape.

    The last graph contains all padding nodes. Padding subgraphs contain only padding
    nodes. A shape must be larger than its batch on every axis.
    """
    return _padded(window, _PaddingSplitter(window, shapes))


def split_both(
    window: Window, shapes: Sequence[Shape]
) -> tuple[list[Item], list[Item]]:
    """Return the batches of `split_padded`, and views of them without padding."""
    splitter = _PaddingSplitter(window, shapes)
    padded = _padded(window, splitter)
    return padded, _items(window, _TrimmingSplitter(splitter), groups=True)


def _padded(window: Window, splitter: _PaddingSplitter) -> list[Item]:
    counts = [window.counts(axis) for axis in window.axes]
    sizes = [
        dict(zip(window.axes, rows, strict=True)) for rows in zip(*counts, strict=True)
    ]
    for rows, shape in zip(sizes, splitter.shapes, strict=False):
        assert shape is not None
        assert shape.fits(rows), f"{rows} leave no padding rows in {shape}"
    items = _items(window, splitter, groups=True)
    return [replace(item, sizes=rows) for item, rows in zip(items, sizes, strict=False)]


def _items(window: Window, splitter: _Splitter, groups: bool) -> list[Item]:
    subgraphs: Iterator[RootedSubgraphs | None] = repeat(None)
    if window.subgraphs is not None:
        subgraphs = _records(window, window.subgraphs, splitter, groups)
    fields = window.extra.items()
    extra = _by_batch({k: splitter.rows(rows, axis) for k, (axis, rows) in fields})
    batches = _batches(window, splitter)
    parts = zip(batches, subgraphs, splitter.shapes, extra, strict=False)
    return [Item(*each) for each in parts]


def _by_batch(fields: Mapping[Any, Iterable]) -> Iterator[dict[Any, Any]]:
    """Turn a dict of lists (one value per batch) into one dict of values per batch."""
    if not fields:
        return repeat({})
    per_batch = zip(*fields.values(), strict=True)
    return (dict(zip(fields, values, strict=True)) for values in per_batch)


def _batches(window: Window, splitter: _Splitter) -> Iterator[GraphBatch]:
    batch, numbers = window.batch, splitter.numbers

    def rows(value: Tensor | None, axis: str) -> Iterable[Tensor | None]:
        return repeat(None) if value is None else splitter.rows(value, axis)

    return map(
        GraphBatch,
        rows(batch.x, "nodes"),
        [some["graphs", "edge_index"] for some in numbers],
        rows(batch.edge_attr, "edges"),
        rows(batch.y, "nodes" if window.node_targets else "graphs"),
        [some["graphs", "batch"] for some in numbers],
        [some["graphs", "ptr"] for some in numbers],
        splitter.real,
    )


def _records(
    window: Window, whole: RootedSubgraphs, splitter: _Splitter, groups: bool
) -> Iterator[RootedSubgraphs]:
    """Yield the rooted subgraphs of each batch; `whole` has those of all batches."""
    sampled: Iterator[dict[str, Any]] = repeat({})
    kind: type[RootedSubgraphs] = RootedSubgraphs
    if isinstance(whole, SampledSubgraphs):
        sampled, kind = _sampled_fields(whole, splitter), SampledSubgraphs
    parts = zip(
        splitter.numbers,
        splitter.sizes["nodes"],
        splitter.sizes["edges"],
        splitter.real,
        sampled,
        _encodings(whole, splitter),
        strict=False,
    )
    for some, num_nodes, num_edges, real, more, encoded in parts:
        tensors: dict[str, Any] = {name: some["record", name] for name in TENSORS}
        sizes: dict[str, Any] = {"num_nodes": num_nodes, "num_edges": num_edges}
        record = kind(**tensors, **sizes, real=real, **more)
        derived = _derived(window, some) if groups else {}
        yield record.assume(**window.known, **derived, encodings=dict(encoded))


def _fields(window: Window, groups: bool) -> list[dict[Name, Field]]:
    """Return the `Field`s of the graphs and, in a second dict, of any subgraphs."""
    batch, whole = window.batch, window.subgraphs
    fields = {
        ("graphs", "edge_index"): Field(batch.edge_index, "edges", "nodes", "edges"),
        ("graphs", "batch"): Field(batch.batch, "nodes", "graphs"),
        ("graphs", "ptr"): Field(batch.ptr, "graphs", "nodes", "pointers"),
    }
    if whole is None:
        return [fields]
    derived = _derived_fields(window, whole) if groups else {}
    return [fields, _record_fields(whole) | derived]


def _record_fields(whole: RootedSubgraphs) -> dict[Name, Field]:
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
    whole: SampledSubgraphs, splitter: _Splitter
) -> Iterator[dict[str, Any]]:
    filling = map(
        Filling,
        [some["filling", "node"] for some in splitter.numbers],
        [some["filling", "subgraph"] for some in splitter.numbers],
        splitter.rows(whole.filling.weight, "fillings"),
    )
    held = splitter.rows(whole.held, "nodes", padding=1)
    covered = splitter.rows(whole.covered, "nodes", padding=1)
    return _by_batch({"held": held, "covered": covered, "filling": filling})


def _encodings(whole: RootedSubgraphs, splitter: _Splitter) -> Iterator[dict]:
    return _by_batch(
        {
            key: [found._replace(rows=r) for r in splitter.rows(found.rows, found.axis)]
            for key, found in extracted_encodings(whole).items()
        }
    )


def _grouped_by(window: Window) -> dict[Axis, tuple[str, str]]:
    """Return the items of `GROUPS` and `SAMPLED_GROUPS` that exist for a window."""
    sampled = isinstance(window.subgraphs, SampledSubgraphs)
    groups = GROUPS | SAMPLED_GROUPS if sampled else dict(GROUPS)
    if window.batch.edge_attr is None:
        del groups["edge"]
    return groups


def _derived_fields(window: Window, whole: RootedSubgraphs) -> dict[Name, Field]:
    """Return the cached tensors of rooted subgraphs: `centroid` and all groupings."""
    fields: dict[Name, Field] = {
        ("centroid", ""): Field(whole.centroid, "subgraphs", "copies")
    }
    for axis, (keys, rows) in _grouped_by(window).items():
        found = whole.by(axis)
        fields["ptr", axis] = Field(found.ptr, keys, rows, "pointers")
        if found.order is not None:
            fields["order", axis] = Field(found.order, rows, rows)
    return fields


def _derived(window: Window, found: Mapping[Name, Tensor]) -> dict[str, object]:
    """Return centroids and groups of a batch, for `RootedSubgraphs.assume`."""
    groups = {
        axis: Groups(found["ptr", axis], found.get(("order", axis)))
        for axis in _grouped_by(window)
    }
    return {"centroid": found["centroid", ""], "by": groups}
