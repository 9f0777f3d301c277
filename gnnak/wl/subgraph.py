"""Subgraph-1-WL: the function HASH maps each node's coloured egonet to a new colour."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from gnnak.graphs.adjacency import incoming
from gnnak.subgraphs import RootedSubgraphs, egonets
from gnnak.subgraphs.induce import induced_edges
from gnnak.wl.inputs import GraphUnion
from gnnak.wl.interning import rank, rank_multisets, rank_pairs, rank_rows
from gnnak.wl.isomorphism import isomorphism_classes, pointed_classes, representatives
from gnnak.wl.options import Options
from gnnak.wl.refinement import REFINEMENTS, Coloring, stable


def subgraph_refinement(union: GraphUnion, options: Options) -> Iterator[Coloring]:
    r"""Run Subgraph-1-WL: yield the colouring of every round, the stable one last.

    $$c^{(t+1)}_v = \left(c^{(t)}_v, \mathrm{HASH}(G^{(t)}[N_k(v)])\right)$$

    $G^{(t)}[N_k(v)]$ is the k-hop egonet of node $v$ with the colours of round $t$.
    HASH is "exact" (isomorphism) or a test in `REFINEMENTS`.

    Difference from the paper: the new colour includes the old colour. So colours get
    finer in each round, even on labelled graphs, and only the last round is compared.
    """
    assert options.num_hops is not None
    items, num_hops = torch.arange(union.num_nodes), options.num_hops
    color, roots = rank(union.node_color), items
    subs, inside = egonet_union(union, num_hops, roots)
    while True:
        coloring = Coloring(color, union.graph, items)
        yield coloring
        if not options.context:
            # A colour that only one node has cannot be split: skip its egonet.
            shared = (torch.bincount(color)[color] > 1).nonzero().flatten()
            if shared.numel() < roots.numel():
                roots = shared
                subs, inside = egonet_union(union, num_hops, roots)
        start = rank_pairs(color[subs.node], _marks(subs, options))
        columns = _read(subs, replace(inside, node_color=start), options)
        color = rank_rows(color, *(_at_nodes(c, subs, color) for c in columns))
        if not color.numel() or int(color.max()) + 1 == coloring.num_colors:
            return


def egonet_union(
    union: GraphUnion, num_hops: int, roots: Tensor
) -> tuple[RootedSubgraphs, GraphUnion]:
    """Return the egonets of `roots`, [s], and their union as s graphs."""
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
    """Return a tensor [n]: `column[i] + 1` at the root of egonet i, 0 elsewhere."""
    values = torch.zeros_like(color)
    values[subs.root] = column + 1
    return values


def _marks(subs: RootedSubgraphs, options: Options) -> Tensor:
    """Return what `options` add to initial colours, [m]: hops, 1 at roots, or 0s."""
    mark = torch.zeros_like(subs.node)
    if options.d2c:
        return mark + subs.hop
    # With the exact HASH, option `centroid` has the same effect as marking the root.
    if options.root_mark or (options.centroid and options.hash == "exact"):
        mark[subs.centroid] = 1
    return mark


def _read(subs: RootedSubgraphs, inside: GraphUnion, options: Options) -> list[Tensor]:
    """Return the parts of each root's new colour, [s] each; the first part is HASH."""
    if options.hash == "exact":
        columns = [isomorphism_classes(inside)]
        if options.context:
            seen = pointed_classes(inside)
            columns.append(rank_multisets(subs.node, seen, inside.num_graphs))
        return columns
    if options.hash != "1-wl" and not options.centroid and not options.context:
        chosen, place = torch.unique(representatives(inside), return_inverse=True)
        coloring = stable(REFINEMENTS[options.hash](inside.select(chosen)))
        return [coloring.fingerprints(chosen.numel())[place]]
    coloring = stable(REFINEMENTS[options.hash](inside))
    columns = [coloring.fingerprints(inside.num_graphs)]
    copy = coloring.color[coloring.node]
    if options.centroid:
        columns.append(copy[subs.centroid])
    if options.context:
        columns.append(rank_multisets(subs.node, copy, inside.num_graphs))
    return columns
