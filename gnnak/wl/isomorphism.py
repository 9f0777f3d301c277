"""Compute the isomorphism classes of small coloured graphs."""

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.wl.inputs import GraphUnion
from gnnak.wl.interning import rank, rank_multisets, rank_pairs
from gnnak.wl.refinement import color_refinement, stable


def refined(union: GraphUnion) -> tuple[GraphUnion, Tensor]:
    """Run 1-WL on every graph of a union.

    Returns:
        The union with the final colours of 1-WL as node colours, and a number for
        every graph, [g]. Two graphs have the same number iff they have the same
        multiset of final colours.
    """
    coloring = stable(color_refinement(union))
    return union.recolored(coloring.color), coloring.fingerprints(union.num_graphs)


def first_shared(union: GraphUnion) -> Tensor:
    """Select in each graph the nodes with the first shared colour.

    A colour is shared if two or more nodes of the same graph have this colour. The
    first shared colour of a graph is the one with the smallest number.

    Returns:
        A boolean mask of the selected nodes, [n].
    """
    if not union.num_nodes:
        return torch.zeros(0, dtype=torch.bool)
    size = int(union.node_color.max()) + 1
    key = rank(union.graph * size + union.node_color)
    shared = (torch.bincount(key)[key] > 1).nonzero().flatten()
    least = torch.full((union.num_graphs,), size, dtype=torch.long)
    least.scatter_reduce_(0, union.graph[shared], union.node_color[shared], "amin")
    return union.node_color == least[union.graph]


def individualise(union: GraphUnion, nodes: Tensor) -> GraphUnion:
    """Give each of `nodes` a colour that no other node of its graph has.

    Args:
        union: The graphs.
        nodes: Indices of nodes, at most one per graph.

    Returns:
        The same graphs with the new colours.
    """
    mark = torch.zeros_like(union.node_color)
    mark[nodes] = 1
    return union.recolored(rank_pairs(union.node_color, mark))


def branches(union: GraphUnion, nodes: Tensor) -> GraphUnion:
    """Make one copy of a graph for each of `nodes`, and recolour this node in the copy.

    Graph i of the returned union is a copy of the graph that contains `nodes[i]`. In
    this copy, `nodes[i]` gets a new colour that no other node has.
    """
    copies = union.select(union.graph[nodes])
    begin = torch.cumsum(union.sizes, 0) - union.sizes
    first = torch.cumsum(copies.sizes, 0) - copies.sizes
    return individualise(copies, first + nodes - begin[union.graph[nodes]])


SEARCH_LIMIT = 100_000
"""Work limit of the backtracking search for one pair of graphs. The search runs 1-WL
many times; it raises an error when the graphs of all these runs together have more
nodes than this."""

UNFOLD_LIMIT, OWN_LIMIT = 1_000_000, 100_000
"""Largest number of nodes in the copies of all graphs together, and in the copies of
one graph; step 3 of the algorithm makes these copies. Beyond either limit, no more
copies are made, and the remaining graphs are compared pair by pair."""


def isomorphism_classes(union: GraphUnion) -> Tensor:
    """Return the isomorphism class of every graph as a number, [g].

    Two graphs have the same number iff there is an isomorphism between them that
    preserves node colours and edge colours. This is fast for egonets of common data
    sets, but can be slow for highly symmetric graphs.

    Raises:
        GraphError: If the search for an isomorphism between two graphs exceeds
            `SEARCH_LIMIT`.

    >>> from gnnak.wl.inputs import read_union
    >>> import networkx as nx
    >>> triangle, ring = nx.cycle_graph(3), nx.cycle_graph(6)
    >>> graphs = [ring, nx.disjoint_union(triangle, triangle), ring, triangle]
    >>> isomorphism_classes(read_union(graphs)).tolist()
    [2, 1, 2, 0]
    """
    colored, kind = refined(union)
    if not kind.numel():
        return kind
    kind, same_as, undecided = _unfold(colored, kind)
    _split_by_search(colored, torch.unique(same_as[undecided[same_as]]), kind)
    return rank(kind[same_as])


def representatives(union: GraphUnion) -> Tensor:
    """Return for every graph the index of a graph that is isomorphic to it, [g].

    A graph gets its own index if no isomorphic graph is found. Graphs that get the same
    index are isomorphic, but isomorphic graphs may get different indices. In exchange,
    this function is faster than `isomorphism_classes` and never fails.
    """
    colored, kind = refined(union)
    own = torch.arange(union.num_graphs)
    return _join(colored, own, kind, kind, own)


def pointed_classes(union: GraphUnion) -> Tensor:
    """Sort nodes into classes; return the class of every node as a number, [n].

    Two nodes, of the same graph or of different graphs, have the same class iff an
    isomorphism of their graphs maps one node to the other.
    """
    pointed = union.select(union.graph)
    first = torch.searchsorted(pointed.graph, torch.arange(union.num_nodes))
    begin = torch.cumsum(union.sizes, 0) - union.sizes
    marked = first + torch.arange(union.num_nodes) - begin[union.graph]
    mark = torch.zeros_like(pointed.graph)
    mark[marked] = 1
    return isomorphism_classes(pointed.recolored(rank_pairs(pointed.node_color, mark)))


def _leaves(union: GraphUnion, kind: Tensor) -> Tensor:
    """Return a number for every graph, from which isomorphic graphs can be found.

    `kind` is a number for the 1-WL result of each graph. Two graphs with equal `kind`
    and equal returned numbers are isomorphic. If the `kind` is equal but the returned
    numbers differ, the graphs may or may not be isomorphic.
    """
    leaf = torch.zeros_like(kind)
    graphs = (torch.bincount(kind)[kind] > 1).nonzero().flatten()
    union = union.select(graphs)
    while graphs.numel():
        shared = first_shared(union)
        open_graphs = torch.unique(union.graph[shared])
        if not open_graphs.numel():
            break
        graphs, union = graphs[open_graphs], union.select(open_graphs)
        cell = first_shared(union).nonzero().flatten()
        chosen = torch.full((union.num_graphs,), union.num_nodes, dtype=torch.long)
        chosen.scatter_reduce_(0, union.graph[cell], cell, "amin")
        union, fingerprint = refined(individualise(union, chosen))
        level = torch.zeros_like(leaf)
        level[graphs] = fingerprint + 1
        leaf = rank_pairs(leaf, level)
    return leaf


def _unfold(union: GraphUnion, kind: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sort graphs into isomorphism classes, as far as is possible without a search.

    `kind` is a number for the 1-WL result of each graph. Returns three tensors with one
    entry per graph: a class number, the index of an isomorphic graph (the graph's own
    index if none is known), and whether a search must still decide the class.
    """
    owner = same_as = torch.arange(union.num_graphs)
    undecided = torch.zeros_like(kind, dtype=torch.bool)
    fingerprint = kind
    while True:
        same_as = _join(union, owner, fingerprint, kind, same_as)
        alive = torch.bincount(kind[torch.unique(same_as)])[kind[owner]] > 1
        union, owner = _filter(union, owner, alive & (same_as[owner] == owner))
        nodes = first_shared(union).nonzero().flatten()
        home = union.graph[nodes]
        if not nodes.numel():
            return kind, same_as, undecided
        grown = torch.bincount(owner[home], union.sizes[home])
        if grown.sum() > UNFOLD_LIMIT or grown.max() > OWN_LIMIT:
            undecided[owner] = True
            return kind, same_as, undecided
        union, fingerprint = refined(branches(union, nodes))
        owner = owner[home]
        kind = rank_pairs(kind, rank_multisets(owner, fingerprint, kind.numel()))
        rarest = _rarest(owner, fingerprint)
        fingerprint = fingerprint[rarest]
        union, owner = _filter(union, owner, rarest)


def _join(
    union: GraphUnion, owner: Tensor, fingerprint: Tensor, kind: Tensor, same_as: Tensor
) -> Tensor:
    """Find isomorphic graphs and return an updated `same_as`.

    `same_as` has for each graph the index of an isomorphic graph, or the graph's own
    index if none is known. `kind` has a class number for each graph; graphs of
    different classes are not isomorphic. `union` has recoloured copies of the graphs.
    For each copy, `owner` is the index of the original graph, and `fingerprint` a
    number for the 1-WL result of the copy.
    """
    if not owner.numel():
        return same_as
    leaf = rank_pairs(fingerprint, _leaves(union, fingerprint))
    least = torch.full_like(kind, int(leaf.max()) + 1)
    least.scatter_reduce_(0, owner, leaf, "amin")
    owners = torch.unique(owner)
    both = rank_pairs(kind[owners], least[owners])
    first = torch.full((int(both.max()) + 1,), kind.numel(), dtype=torch.long)
    first.scatter_reduce_(0, both, owners, "amin")
    representative = torch.arange(kind.numel())
    representative[owners] = first[both]
    return representative[same_as]


def _filter(
    union: GraphUnion, owner: Tensor, mask: Tensor
) -> tuple[GraphUnion, Tensor]:
    """Select graphs of a union, and their entries in `owner`, by a boolean mask."""
    graphs = mask.nonzero().flatten()
    return union.select(graphs), owner[graphs]


def _rarest(owner: Tensor, fingerprint: Tensor) -> Tensor:
    """Return a boolean mask of the copies with the rarest 1-WL result.

    For each copy of a graph, `owner` is the index of the original graph, and
    `fingerprint` a number for the 1-WL result of the copy. For each original graph, the
    mask selects the copies whose fingerprint is rarest among the copies of this graph.
    """
    if not owner.numel():
        return torch.zeros(0, dtype=torch.bool)
    both = rank_pairs(owner, fingerprint)
    often = rank_pairs(torch.bincount(both)[both], fingerprint)
    least = torch.full((int(owner.max()) + 1,), int(often.max()), dtype=torch.long)
    return often == least.scatter_reduce_(0, owner, often, "amin")[owner]


def _split_by_search(union: GraphUnion, undecided: Tensor, kind: Tensor) -> None:
    """Compare the undecided graphs pair by pair and update `kind` in place.

    Afterwards, two of these graphs have the same number in `kind` iff they are
    isomorphic.
    """
    fresh = int(kind.max()) + 1
    known: dict[int, list[int]] = {}
    for graph in undecided.tolist():
        others = known.setdefault(int(kind[graph]), [])
        for other in others:
            if _isomorphic(union.select(torch.tensor([other, graph]))):
                kind[graph] = kind[other]
                break
        else:
            if others:
                kind[graph] = fresh
                fresh += 1
            others.append(graph)


def _isomorphic(pair: GraphUnion) -> bool:
    """Return whether two graphs are isomorphic, by a search with backtracking.

    Raises `GraphError` if the search exceeds `SEARCH_LIMIT`.
    """
    stack, spent = [pair], 0
    while stack:
        pair = stack.pop()
        cell = first_shared(pair).nonzero().flatten()
        if not cell.numel():
            return True
        in_first = pair.graph[cell] == 0
        tried = torch.cat([cell[in_first][:1], cell[~in_first]])
        spent += int(pair.sizes[pair.graph[tried]].sum())
        if spent > SEARCH_LIMIT:
            raise GraphError(
                f"two graphs of {int(pair.sizes[0])} nodes were not decided within "
                f"{SEARCH_LIMIT} refined nodes; use hash='3-wl' or fewer hops."
            )
        tries, fingerprint = refined(branches(pair, tried))
        fits = (fingerprint[1:] == fingerprint[0]).nonzero().flatten() + 1
        stack += [tries.select(torch.tensor([0, i])) for i in fits.tolist()[::-1]]
    return False
