"""Subgraph-1-WL: a node's new colour is a HASH of the egonet rooted at it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.graphs.adjacency import incoming
from gnnak.subgraphs import RootedSubgraphs, egonets
from gnnak.subgraphs.induce import induced_edges
from gnnak.wl.interning import rank, rank_multisets, rank_pairs, rank_rows
from gnnak.wl.isomorphism import (
    isomorphism_classes,
    pointed_classes,
    representatives,
)
from gnnak.wl.refinement import Coloring, color_refinement, stable
from gnnak.wl.tuples import folklore_refinement, tuple_refinement
from gnnak.wl.union import GraphUnion

REFINEMENTS: dict[str, Callable[[GraphUnion], Iterator[Coloring]]] = {
    "1-wl": color_refinement,
    "2-wl": lambda union: tuple_refinement(union, 2),
    "3-wl": lambda union: tuple_refinement(union, 3),
    "2-fwl": lambda union: folklore_refinement(union, 2),
    "3-fwl": lambda union: folklore_refinement(union, 3),
}
"""The tests without subgraphs; each can also be the HASH of Subgraph-1-WL."""


class Reading(NamedTuple):
    """Extra information in Subgraph-1-WL; all False is the paper's definition."""

    d2c: bool = False
    """Whether the initial colours in an egonet include the distance to the centroid
    (D2C), which is the root."""
    root_mark: bool = False
    """Whether the root has a distinct initial colour in its egonet."""
    centroid: bool = False
    """Whether a node's new colour includes its colour in its own egonet, as the
    centroid encoding of GNN-AK does."""
    context: bool = False
    """Whether a node's new colour includes its colours in all egonets, as the context
    encoding of GNN-AK+ does."""


def subgraph_refinement(
    union: GraphUnion, hash: str, num_hops: int, reading: Reading
) -> Iterator[Coloring]:
    r"""Yield the colouring of every round of Subgraph-1-WL, the stable one last.

    $$c^{(t+1)}_v = \left(c^{(t)}_v, \mathrm{HASH}(G^{(t)}[N_k(v)])\right)$$

    Difference from the paper: the new colour includes the old colour $c^{(t)}_v$, not
    only the HASH. On unlabelled graphs this changes nothing; on labelled graphs it
    makes each round a refinement of the one before, so that it suffices to compare the
    last round.

    Args:
        union: The graphs.
        hash: "exact" (isomorphism of coloured graphs) or a key of `REFINEMENTS`.
        num_hops: Radius k of the egonets.
        reading: Extra information that a new colour includes.
    """
    items = torch.arange(union.num_nodes)
    color, roots = rank(union.node_color), items
    subs, inside = egonet_union(union, num_hops, roots)
    while True:
        coloring = Coloring(color, union.graph, items)
        yield coloring
        if not reading.context:
            # A colour that only one node has cannot be split: skip its egonet.
            shared = (torch.bincount(color)[color] > 1).nonzero().flatten()
            if shared.numel() < roots.numel():
                roots = shared
                subs, inside = egonet_union(union, num_hops, roots)
        start = rank_pairs(color[subs.node], _marks(subs, hash, reading))
        columns = _read(subs, inside.recolored(start), hash, reading)
        color = rank_rows(color, *(_at_nodes(c, subs, color) for c in columns))
        if not color.numel() or int(color.max()) + 1 == coloring.num_colors:
            return


def egonet_union(
    union: GraphUnion, num_hops: int, roots: Tensor
) -> tuple[RootedSubgraphs, GraphUnion]:
    """Extract the egonets of some nodes.

    Args:
        union: The graphs.
        num_hops: Radius of the egonets.
        roots: Nodes of the union, [s].

    Returns:
        The egonets as rooted subgraphs, and as a union in which each egonet is a graph.
    """
    arcs = union.edge_index[:, union.forward]
    subs = egonets(arcs, union.num_nodes, num_hops, roots)
    if bool(union.forward.all()):
        ends, edge = subs.edge_index, subs.edge
    else:
        pairs = incoming(union.edge_index, union.num_nodes)
        ends, edge = induced_edges(subs.node, subs.subgraph, roots.numel(), pairs)
    inside = GraphUnion(
        num_graphs=roots.numel(),
        graph=subs.subgraph,
        node_color=union.node_color[subs.node],
        edge_index=ends,
        edge_color=union.edge_color[edge],
        forward=union.forward[edge],
    )
    return subs, inside


def _at_nodes(column: Tensor, subs: RootedSubgraphs, color: Tensor) -> Tensor:
    """Scatter a value per egonet, [s], plus 1 to the roots, [n]; other nodes get 0."""
    values = torch.zeros_like(color)
    values[subs.root] = column + 1
    return values


def _marks(subs: RootedSubgraphs, hash: str, reading: Reading) -> Tensor:
    """Return the mark that is combined with the colour of each node copy, [m]."""
    mark = torch.zeros_like(subs.node)
    if reading.d2c:
        return mark + subs.hop
    # For the exact HASH, the centroid colour is the same as marking the root.
    if reading.root_mark or (reading.centroid and hash == "exact"):
        mark[subs.centroid] = 1
    return mark


def _read(
    subs: RootedSubgraphs, inside: GraphUnion, hash: str, reading: Reading
) -> list[Tensor]:
    """Return what a round adds to the colours of the roots, as columns [s]."""
    if hash == "exact":
        columns = [isomorphism_classes(inside)]
        if reading.context:
            seen = pointed_classes(inside)
            columns.append(rank_multisets(subs.node, seen, inside.num_graphs))
        return columns
    if not reading.centroid and not reading.context:
        return [_fingerprints(inside, hash)]
    coloring = stable(REFINEMENTS[hash](inside))
    columns = [coloring.fingerprints(inside.num_graphs)]
    copy = coloring.color[coloring.node]
    if reading.centroid:
        columns.append(copy[subs.centroid])
    if reading.context:
        columns.append(rank_multisets(subs.node, copy, inside.num_graphs))
    return columns


def _fingerprints(inside: GraphUnion, hash: str) -> Tensor:
    """Return the fingerprint of every egonet, [s].

    Tests other than 1-WL are costly, so they run on one representative of egonets that
    are found to be isomorphic.
    """
    if hash == "1-wl":
        return stable(color_refinement(inside)).fingerprints(inside.num_graphs)
    chosen, place = torch.unique(representatives(inside), return_inverse=True)
    coloring = stable(REFINEMENTS[hash](inside.select(chosen)))
    return coloring.fingerprints(chosen.numel())[place]
