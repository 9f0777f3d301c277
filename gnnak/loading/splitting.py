"""Split a window into batches with their rooted subgraphs, for training steps.

A window is several consecutive batches, assembled as one large batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat

from gnnak.graphs import GraphBatch
from gnnak.loading.items import Item, Shape
from gnnak.loading.shapes import fits
from gnnak.loading.splitters import PaddingSplitter, SliceSplitter, Splitter
from gnnak.loading.trimming import PaddedOnce, TrimmingSplitter
from gnnak.loading.windows import Window
from gnnak.sampling.estimate import Filling, SampledSubgraphs
from gnnak.subgraphs.encodings import extracted_encodings
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import Axis, RootedSubgraphs

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
    fields = zip(
        splitter.rows(whole.root, "subgraphs", "nodes"),
        splitter.rows(whole.node, "copies", "nodes"),
        splitter.rows(whole.subgraph, "copies", "subgraphs"),
        splitter.rows(whole.hop, "copies"),
        splitter.edges(whole.edge_index, "edge_copies", "copies"),
        splitter.rows(whole.edge, "edge_copies", "edges"),
        splitter.sizes("nodes"),
        splitter.sizes("edges"),
        splitter.real(),
        strict=True,
    )
    records: Iterator[RootedSubgraphs]
    if isinstance(whole, SampledSubgraphs):
        sampled = zip(fields, _sampled_fields(whole, splitter), strict=True)
        records = (SampledSubgraphs(*some, **more) for some, more in sampled)
    else:
        records = (RootedSubgraphs(*some) for some in fields)
    derived = _derived(whole, splitter) if groups else repeat({})
    encodings = _encodings(whole, splitter)
    for record, values, encoded in zip(records, derived, encodings, strict=False):
        yield record.assume(**window.known, **values, **encoded)


def _sampled_fields(whole: SampledSubgraphs, splitter: Splitter) -> Iterator[dict]:
    """Yield, for each batch, a dict of the fields that only `SampledSubgraphs` has."""
    filling = map(
        Filling,
        splitter.rows(whole.filling.node, "fillings", "nodes"),
        splitter.rows(whole.filling.subgraph, "fillings", "subgraphs"),
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


def _derived(whole: RootedSubgraphs, splitter: Splitter) -> Iterator[dict]:
    """Yield keyword arguments for `RootedSubgraphs.assume`, for each batch.

    They are the roots' positions among the nodes of the subgraphs (`centroid`), and all
    groupings (`by`), such as the nodes of each subgraph.
    """
    kinds, axes = [], GROUPS
    if isinstance(whole, SampledSubgraphs):
        axes = GROUPS | SAMPLED_GROUPS
    for axis, (keys, rows) in axes.items():
        found = whole.by(axis)
        order = found.order
        kinds.append(
            map(
                Groups,
                splitter.pointers(found.ptr, keys, rows),
                repeat(None) if order is None else splitter.rows(order, rows, rows),
            )
        )
    centroid = splitter.rows(whole.centroid, "subgraphs", "copies")
    for copies, *groups in zip(centroid, *kinds, strict=True):
        yield {"centroid": copies, "by": dict(zip(axes, groups, strict=True))}
