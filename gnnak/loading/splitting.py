"""Split a window into batches with their rooted subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

from torch import Tensor

from gnnak.graphs import GraphBatch
from gnnak.graphs.real import RealCounts
from gnnak.loading.items import Item, Shape
from gnnak.loading.padding import Joint, PaddingSplitter
from gnnak.loading.shapes import fits
from gnnak.loading.splitters import SliceSplitter, Splitter
from gnnak.loading.windows import Field, Key, Window
from gnnak.sampling.estimate import Filling, SampledSubgraphs
from gnnak.subgraphs.encodings import extracted_encodings
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import TENSORS, Axis, RootedSubgraphs


class PaddedOnce(PaddingSplitter):
    """Splits a window with padding, and splits each tensor only once.

    A second call with the same tensor returns the parts of the first call.

    Args:
        window: The batches.
        shapes: The sizes to pad each batch to.
    """

    def __init__(self, window: Window, shapes: Sequence[Shape]) -> None:
        super().__init__(window, shapes)
        self._found: dict[tuple, tuple[Tensor, Sequence[Tensor]]] = {}
        self._joint: tuple[dict[Any, Tensor], Joint] | None = None

    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Return, for each batch, its rows of `value`, followed by padding rows."""
        split, given = super().rows, (axis, refers_to, padding)
        return self._once(value, ("rows", *given), lambda: split(value, *given))

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Return, for each batch, its edges, followed by self loops as padding."""
        split, given = super().edges, (axis, refers_to)
        return self._once(value, ("edges", *given), lambda: split(value, *given))

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Return, for each batch, its CSR row pointer, padded with empty groups."""
        split, given = super().pointers, (keys, rows)
        return self._once(value, ("pointers", *given), lambda: split(value, *given))

    def joint(self, fields: Mapping[Key, Field]) -> Joint[Key]:
        """Copy many tensors and their padding into one tensor, at the first call."""
        values = {key: field.value for key, field in fields.items()}
        if self._joint is None:
            self._joint = values, super().joint(fields)
        before, joint = self._joint
        assert before.keys() == values.keys()
        assert all(values[key] is value for key, value in before.items())
        return joint

    def _once(
        self, value: Tensor, how: tuple, split: Callable[[], Sequence[Tensor]]
    ) -> Sequence[Tensor]:
        """Return the parts of a tensor; call `split` for them at first use.

        Args:
            value: The tensor.
            how: The name of the method and its other arguments.
            split: Splits the tensor.
        """
        key = (id(value), *how)
        if key not in self._found:
            # The tensor is stored, too, so that no other tensor gets its `id`.
            self._found[key] = (value, split())
        return self._found[key][1]


class TrimmingSplitter(Splitter):
    """Splits a window without padding: returns views of the padded batches.

    Args:
        window: The batches.
        padded: Splits the same window, with padding.
    """

    def __init__(self, window: Window, padded: PaddedOnce) -> None:
        self.window, self.padded = window, padded

    def sizes(self, axis: str) -> list[int]:
        """Return how many rows each batch has on an axis, such as "nodes"."""
        return self.window.counts(axis)[: len(self.padded.shapes)]

    def rows(
        self, value: Tensor, axis: str, refers_to: str | None = None, padding: int = 0
    ) -> Sequence[Tensor]:
        """Return, for each batch, its rows of `value`; arguments as in `Splitter`."""
        parts = self.padded.rows(value, axis, refers_to, padding)
        return [p[:n] for p, n in zip(parts, self.sizes(axis), strict=True)]

    def edges(self, value: Tensor, axis: str, refers_to: str) -> Sequence[Tensor]:
        """Return, for each batch, its edges; arguments as in `Splitter`."""
        parts = self.padded.edges(value, axis, refers_to)
        return [p[:, :n] for p, n in zip(parts, self.sizes(axis), strict=True)]

    def pointers(self, value: Tensor, keys: str, rows: str) -> Sequence[Tensor]:
        """Return, for each batch, its CSR row pointer; arguments as in `Splitter`."""
        parts = self.padded.pointers(value, keys, rows)
        return [p[: n + 1] for p, n in zip(parts, self.sizes(keys), strict=True)]

    def together(self, fields: Mapping[Key, Field]) -> list[dict[Key, Tensor]]:
        """Split many int64 tensors by batch; the parts are views of the padded ones."""
        return self.padded.joint(fields).trimmed()

    def real(self) -> Sequence[RealCounts | None]:
        """Return None for each batch, as no batch is padded."""
        return [None] * len(self.padded.shapes)

    def padded_to(self) -> Sequence[Shape | None]:
        """Return None for each batch, as no batch is padded."""
        return [None] * len(self.padded.shapes)


GROUPS: dict[Axis, tuple[str, str]] = {
    "subgraph": ("subgraphs", "copies"),
    "node": ("nodes", "copies"),
    "target": ("copies", "edge_copies"),
    "source": ("copies", "edge_copies"),
    "edge": ("edges", "edge_copies"),
}
"""For each grouping that `RootedSubgraphs.by` returns: what the groups belong to, and
what the groups contain. The first entry, for example, means that each subgraph has a
group, which contains the nodes of that subgraph ("copies")."""
SAMPLED_GROUPS: dict[Axis, tuple[str, str]] = {
    "taker": ("nodes", "fillings"),
    "giver": ("subgraphs", "fillings"),
}
"""Two more groupings, in the form of `GROUPS`, for subgraphs sampled by SubgraphDrop.
They group the entries of the `Filling` (the sparse matrix that estimates encodings of
dropped roots from sampled ones) by row, a node, and by column, a sampled subgraph."""
Name = tuple[str, str]
"""Names a tensor of rooted subgraphs: what it is part of, and its name there."""


def split(window: Window, groups: bool = False, first_batch: int = 0) -> list[Item]:
    """Split a window, that is, several batches assembled as one, into its batches.

    Args:
        window: The batches.
        groups: Whether to compute groupings, such as the nodes of each subgraph, now
            for all batches. If False, each batch computes them when they are needed.
        first_batch: Number of the first batch to return; earlier batches are skipped.
    """
    return _items(window, SliceSplitter(window, first_batch), groups)


def split_padded(window: Window, shapes: Sequence[Shape]) -> list[Item]:
    """Split a window, that is, several batches assembled as one, and pad each batch.

    In each batch, padding comes after the real data. The last graph is padding and
    contains all padding nodes. Padding edges are self loops of padding nodes, and
    padding subgraphs contain only padding nodes.

    Args:
        window: The batches.
        shapes: The sizes to pad each batch to, larger than the batch on every axis
            (nodes, edges, ...). Only the first `len(shapes)` batches are returned.
    """
    return _padded(window, PaddingSplitter(window, shapes))


def split_both(
    window: Window, shapes: Sequence[Shape]
) -> tuple[list[Item], list[Item]]:
    """Split a window into its batches, with padding and without.

    The batches without padding are views of the padded ones.

    Args:
        window: The batches.
        shapes: As in `split_padded`.

    Returns:
        The padded batches, and the batches without padding.
    """
    splitter = PaddedOnce(window, shapes)
    padded = _padded(window, splitter)
    return padded, _items(window, TrimmingSplitter(window, splitter), groups=True)


def _padded(window: Window, splitter: PaddingSplitter) -> list[Item]:
    """Split a window into padded batches; see `split_padded`."""
    counts = [window.counts(axis) for axis in window.axes]
    sizes = [
        dict(zip(window.axes, rows, strict=True)) for rows in zip(*counts, strict=True)
    ]
    for rows, shape in zip(sizes, splitter.shapes, strict=False):
        assert fits(rows, shape), f"{rows} leave no padding rows in {shape}"
    items = _items(window, splitter, groups=True)
    return [replace(item, sizes=rows) for item, rows in zip(items, sizes, strict=False)]


def _items(window: Window, splitter: Splitter, groups: bool) -> list[Item]:
    """Split a window into its batches; arguments as in `split`."""
    subgraphs: Iterator[RootedSubgraphs | None] = repeat(None)
    if window.subgraphs is not None:
        subgraphs = _records(window, window.subgraphs, splitter, groups)
    batches, shapes = _batches(window, splitter), splitter.padded_to()
    extra = _extra(window, splitter)
    parts = zip(batches, subgraphs, shapes, extra, strict=False)
    return [Item(*each) for each in parts]


def _extra(window: Window, splitter: Splitter) -> Iterator[dict]:
    """Yield the further fields of each batch, by name."""
    if not window.extra:
        return repeat({})
    fields = window.extra.items()
    parts = {name: splitter.rows(rows, axis) for name, (axis, rows) in fields}
    per_batch = zip(*parts.values(), strict=True)
    return (dict(zip(parts, values, strict=True)) for values in per_batch)


def _batches(window: Window, splitter: Splitter) -> Iterator[GraphBatch]:
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
    window: Window, whole: RootedSubgraphs, splitter: Splitter, groups: bool
) -> Iterator[RootedSubgraphs]:
    """Split the rooted subgraphs of a window by batch, and yield those of each batch.

    Args:
        window: Several consecutive batches, assembled as one large batch.
        whole: The rooted subgraphs of all batches.
        splitter: Splits each tensor of `whole` by batch.
        groups: Whether to also compute groupings, such as the nodes of each subgraph.
    """
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
        yield record.assume(**window.known, **derived, **encoded)


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
    whole: SampledSubgraphs, splitter: Splitter, found: Sequence[Mapping[Name, Tensor]]
) -> Iterator[dict[str, Any]]:
    """Yield, for each batch, a dict of the fields that only `SampledSubgraphs` has.

    Args:
        whole: The sampled subgraphs of all batches.
        splitter: Splits the tensors that are not int64.
        found: For each batch, its part of each of the `_fields`.
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


def _encodings(whole: RootedSubgraphs, splitter: Splitter) -> Iterator[dict]:
    """Yield, for each batch, its structural encodings, by their names in the cache."""
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
    """Return all groupings that rooted subgraphs have, in the form of `GROUPS`."""
    sampled = isinstance(whole, SampledSubgraphs)
    return GROUPS | SAMPLED_GROUPS if sampled else GROUPS


def _derived_fields(whole: RootedSubgraphs) -> dict[Name, Field]:
    """Return the tensors that are computed from rooted subgraphs, to be split by batch.

    They are the roots' positions among the nodes of the subgraphs (`centroid`), and all
    groupings (`by`), such as the nodes of each subgraph.
    """
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
    """Return keyword arguments for `RootedSubgraphs.assume`, for one batch.

    Args:
        whole: The rooted subgraphs of all batches.
        found: The batch's part of each of the `_derived_fields`.
    """
    groups = {
        axis: Groups(found["ptr", axis], found.get(("order", axis)))
        for axis in _grouped_by(whole)
    }
    return {"centroid": found["centroid", ""], "by": groups}
