"""From a window to the items that steps of training are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

from gnnak.graphs import GraphBatch
from gnnak.loading.cutters import Cutter, Padding, Slices
from gnnak.loading.items import Item, Shape
from gnnak.loading.shapes import fits
from gnnak.loading.windows import Window
from gnnak.sampling.estimate import Filling, SampledSubgraphs
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import Axis, RootedSubgraphs

GROUPS: dict[Axis, tuple[str, str]] = {
    "subgraph": ("subgraphs", "copies"),
    "node": ("nodes", "copies"),
    "target": ("copies", "edge_copies"),
    "source": ("copies", "edge_copies"),
    "edge": ("edges", "edge_copies"),
}
"""Of every kind of `Groups`, what its keys and its rows are."""
SAMPLED_GROUPS: dict[Axis, tuple[str, str]] = {
    "taker": ("nodes", "fillings"),
    "giver": ("subgraphs", "fillings"),
}
"""Those that only sampled subgraphs have."""


def cut(window: Window, groups: bool = False, since: int = 0) -> list[Item]:
    """Cut a window into its batches, each as if it had been put together for itself.

    Args:
        window: The batches.
        groups: Whether each has the centroids and all `Groups` of its copies and edge
            copies; they are found for the whole window at once.
        since: The first batch that is wanted.
    """
    return _items(window, Slices(window, since), groups)


def pad(window: Window, shapes: Sequence[Shape]) -> list[Item]:
    """Cut a window into batches of given shapes, with centroids and `Groups`.

    Real rows come first on every axis. The last graph, a padding one, holds the padding
    nodes. Padding edges are self loops, and padding copies are of padding nodes, in
    padding subgraphs, in no group; what they fill in has no weight.

    Args:
        window: The batches.
        shapes: Sizes to pad each of the first batches to; the others are not wanted.
            Each must leave room for padding.
    """
    for number, shape in enumerate(shapes):
        rows = {axis: window.counts(axis)[number] for axis in window.axes}
        assert fits(rows, shape), f"{rows} leave no room for padding in {shape}"
    return _items(window, Padding(window, shapes), groups=True)


def _items(window: Window, cutter: Cutter, groups: bool) -> list[Item]:
    subgraphs: Iterator[RootedSubgraphs | None] = repeat(None)
    if window.subgraphs is not None:
        subgraphs = _records(window, window.subgraphs, cutter, groups)
    made = zip(_batches(window, cutter), subgraphs, cutter.padded_to(), strict=False)
    return [Item(*parts) for parts in made]


def _batches(window: Window, cutter: Cutter) -> Iterator[GraphBatch]:
    batch, owners = window.batch, "nodes" if window.node_targets else "graphs"
    return map(
        GraphBatch,
        repeat(None) if batch.x is None else cutter.rows(batch.x, "nodes"),
        cutter.ends(batch.edge_index, "edges", "nodes"),
        repeat(None)
        if batch.edge_attr is None
        else cutter.rows(batch.edge_attr, "edges"),
        repeat(None) if batch.y is None else cutter.rows(batch.y, owners),
        cutter.rows(batch.batch, "nodes", "graphs"),
        cutter.pointers(batch.ptr, "graphs", "nodes"),
        cutter.real(),
    )


def _records(
    window: Window, whole: RootedSubgraphs, cutter: Cutter, groups: bool
) -> Iterator[RootedSubgraphs]:
    fields = zip(
        cutter.rows(whole.root, "subgraphs", "nodes"),
        cutter.rows(whole.node, "copies", "nodes"),
        cutter.rows(whole.subgraph, "copies", "subgraphs"),
        cutter.rows(whole.hop, "copies"),
        cutter.ends(whole.edge_index, "edge_copies", "copies"),
        cutter.rows(whole.edge, "edge_copies", "edges"),
        cutter.sizes("nodes"),
        cutter.sizes("edges"),
        cutter.real(),
        strict=True,
    )
    records: Iterator[RootedSubgraphs]
    if isinstance(whole, SampledSubgraphs):
        drawn = zip(fields, _sampled(whole, cutter), strict=True)
        records = (SampledSubgraphs(*some, **more) for some, more in drawn)
    else:
        records = (RootedSubgraphs(*some) for some in fields)
    derived = _derived(whole, cutter) if groups else repeat({})
    for record, found in zip(records, derived, strict=False):
        yield record.assume(**window.known, **found)


def _sampled(whole: SampledSubgraphs, cutter: Cutter) -> Iterator[dict]:
    filling = map(
        Filling,
        cutter.rows(whole.filling.node, "fillings", "nodes"),
        cutter.rows(whole.filling.subgraph, "fillings", "subgraphs"),
        cutter.rows(whole.filling.weight, "fillings"),
    )
    held = cutter.rows(whole.held, "nodes", padding=1)
    covered = cutter.rows(whole.covered, "nodes", padding=1)
    for values in zip(held, covered, filling, strict=True):
        yield dict(zip(("held", "covered", "filling"), values, strict=True))


def _derived(whole: RootedSubgraphs, cutter: Cutter) -> Iterator[dict]:
    """By batch, what `RootedSubgraphs.assume` takes."""
    kinds, of = [], GROUPS
    if isinstance(whole, SampledSubgraphs):
        of = GROUPS | SAMPLED_GROUPS
    for axis, (keys, rows) in of.items():
        found = whole.by(axis)
        order = found.order
        kinds.append(
            map(
                Groups,
                cutter.pointers(found.ptr, keys, rows),
                repeat(None) if order is None else cutter.rows(order, rows, rows),
            )
        )
    centroid = cutter.rows(whole.centroid, "subgraphs", "copies")
    for place, *groups in zip(centroid, *kinds, strict=True):
        yield {"centroid": place, "by": dict(zip(of, groups, strict=True))}
