"""Subgraph-1-WL: a node's new colour is computed from the egonet rooted at the node.

HASH is the function that maps an egonet, with coloured nodes, to a colour.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.graphs.adjacency import incoming
from gnnak.subgraphs import RootedSubgraphs, egonets
from gnnak.subgraphs.induce import induced_edges
from gnnak.wl.inputs import GraphUnion
from gnnak.wl.interning import rank, rank_multisets, rank_pairs, rank_rows
from gnnak.wl.isomorphism import isomorphism_classes, pointed_classes, representatives
from gnnak.wl.refinement import (
    Coloring,
    color_refinement,
    folklore_refinement,
    stable,
    tuple_refinement,
)

REFINEMENTS: dict[str, Callable[[GraphUnion], Iterator[Coloring]]] = {
    "1-wl": color_refinement,
    "2-wl": lambda union: tuple_refinement(union, 2),
    "3-wl": lambda union: tuple_refinement(union, 3),
    "2-fwl": lambda union: folklore_refinement(union, 2),
    "3-fwl": lambda union: folklore_refinement(union, 3),
}
"""Maps each WL test without subgraphs to a function that yields the colouring of every
round. Subgraph-1-WL can use each of these tests as its HASH."""


class Reading(NamedTuple):
    """Options that add information to the colours of Subgraph-1-WL; see `Options`."""

    d2c: bool = False
    root_mark: bool = False
    centroid: bool = False
    """Corresponds to the centroid encoding of GNN-AK."""
    context: bool = False
    """Corresponds to the context encoding of GNN-AK+."""


def subgraph_refinement(
    union: GraphUnion, hash: str, num_hops: int, reading: Reading
) -> Iterator[Coloring]:
    r"""Run Subgraph-1-WL: yield the colouring of every round, the stable one last.

    $$c^{(t+1)}_v = \left(c^{(t)}_v, \mathrm{HASH}(G^{(t)}[N_k(v)])\right)$$

    where $G^{(t)}[N_k(v)]$ is the k-hop egonet of node $v$ with the colours of round
    $t$. HASH is "exact" (isomorphism of coloured graphs) or a test in `REFINEMENTS`.

    Difference from the paper: the new colour includes the old colour $c^{(t)}_v$, not
    only the HASH. On unlabelled graphs this changes nothing. On labelled graphs, it
    makes the colours of each round finer than those of the round before, so that it is
    enough to compare the colours of the last round.
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
    """Extract the egonets of `roots`, [s]; also return them as a union of s graphs."""
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
    """Return [n]: at each root, the value of its egonet plus 1; at other nodes, 0."""
    values = torch.zeros_like(color)
    values[subs.root] = column + 1
    return values


def _marks(subs: RootedSubgraphs, hash: str, reading: Reading) -> Tensor:
    """Return what initial colours encode of the root, one number per node copy, [m].

    This is the distance to the root (D2C), or 1 at the root and else 0, or always 0.
    """
    mark = torch.zeros_like(subs.node)
    if reading.d2c:
        return mark + subs.hop
    # With the exact HASH, option `centroid` has the same effect as marking the root.
    if reading.root_mark or (reading.centroid and hash == "exact"):
        mark[subs.centroid] = 1
    return mark


def _read(
    subs: RootedSubgraphs, inside: GraphUnion, hash: str, reading: Reading
) -> list[Tensor]:
    """Return what a round adds to the colours of the s roots: a list of tensors [s]."""
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
    """Number the egonets, [s]; numbers differ iff the test `hash` tells them apart."""
    if hash == "1-wl":
        return stable(color_refinement(inside)).fingerprints(inside.num_graphs)
    chosen, place = torch.unique(representatives(inside), return_inverse=True)
    coloring = stable(REFINEMENTS[hash](inside.select(chosen)))
    return coloring.fingerprints(chosen.numel())[place]
