"""Compute the isomorphism classes of small coloured graphs.

This is the exact version of HASH, the function of an egonet in the paper's
Subgraph-1-WL. The algorithm is individualisation and refinement, batched over all
graphs of a union. To individualise a node is to give it a colour of its own; a shared
colour is one that several nodes of a graph have.

1. Refine: 1-WL (Weisfeiler-Leman, or colour refinement) sorts the graphs into kinds;
   isomorphic graphs are of the same kind.
2. Join: in every graph, one node of the first shared colour is individualised and 1-WL
   is run again, until no colour is shared. Two graphs that end with the same colours
   are isomorphic (map nodes to nodes of the same colour), so only one of them, the
   representative, is processed further.
3. Split: for *every* node of the first shared colour, a branch is created: a copy of
   the graph with this node individualised. Graphs with different multisets of refined
   branches become different kinds. Steps 2 and 3 are repeated on the branches with the
   rarest fingerprint. These choices do not depend on the numbering of nodes, so if no
   shared colour is left, the kinds are the isomorphism classes.
4. Search: if the branches grow too large, the remaining graphs are compared pair by
   pair, by a search with backtracking.
"""

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.wl.individualise import branches, first_shared, individualise, refined
from gnnak.wl.interning import rank, rank_multisets, rank_pairs
from gnnak.wl.union import GraphUnion

SEARCH_LIMIT = 100_000
"""Number of nodes that the backtracking search for one pair of graphs may refine before
it is aborted."""

UNFOLD_LIMIT, OWN_LIMIT = 1_000_000, 100_000
"""Limits on the number of nodes in the branches of all graphs, and in those of one
graph. Above them, step 3 stops and the remaining graphs are compared pair by pair."""


def isomorphism_classes(union: GraphUnion) -> Tensor:
    """Return the isomorphism class of every graph as a number, [g].

    Two graphs have the same number iff there is an isomorphism between them that
    preserves node colours and pair colours. The worst case is a pair of graphs that
    1-WL does not distinguish even after many nodes are individualised. Egonets of
    common data sets are far from this case.

    Raises:
        GraphError: If the search for one pair refined more than `SEARCH_LIMIT` nodes.

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
    kind, like, doubt = _unfold(colored, kind)
    _split_by_search(colored, torch.unique(like[doubt[like]]), kind)
    return rank(kind[like])


def representatives(union: GraphUnion) -> Tensor:
    """Return for every graph the index of its representative, an isomorphic graph, [g].

    Only steps 1 and 2 of the module docstring are run. They are fast and never fail,
    but isomorphic graphs may have different representatives.
    """
    colored, kind = refined(union)
    own = torch.arange(union.num_graphs)
    return _join(colored, own, kind, kind, own)


def pointed_classes(union: GraphUnion) -> Tensor:
    """Return a class for every node as a number, [n].

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
    """Individualise one node at a time until no colour is shared (step 2).

    Args:
        union: The graphs in their stable colours.
        kind: The kind of each graph, [g].

    Returns:
        The leaf number of every graph, [g]. Two graphs of the same kind with the same
        leaf number are isomorphic. Isomorphic graphs may have different leaf numbers,
        since the individualised nodes are chosen by their index.
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
    """Repeat steps 2 and 3 until all graphs are decided or a limit is exceeded.

    Args:
        union: The graphs in their stable colours.
        kind: The kind of each graph, [g].

    Returns:
        Three tensors, [g]: the new kind of each graph; the representative of each
        graph; whether the graph is undecided. For an undecided graph, graphs of the
        same kind may not be isomorphic to it.
    """
    owner = like = torch.arange(union.num_graphs)
    doubt = torch.zeros_like(kind, dtype=torch.bool)
    fingerprint = kind
    while True:
        like = _join(union, owner, fingerprint, kind, like)
        alive = torch.bincount(kind[torch.unique(like)])[kind[owner]] > 1
        union, owner = _filter(union, owner, alive & (like[owner] == owner))
        nodes = first_shared(union).nonzero().flatten()
        home = union.graph[nodes]
        if not nodes.numel():
            return kind, like, doubt
        grown = torch.bincount(owner[home], union.sizes[home])
        if grown.sum() > UNFOLD_LIMIT or grown.max() > OWN_LIMIT:
            doubt[owner] = True
            return kind, like, doubt
        union, fingerprint = refined(branches(union, nodes))
        owner = owner[home]
        kind = rank_pairs(kind, rank_multisets(owner, fingerprint, kind.numel()))
        rarest = _rarest(owner, fingerprint)
        fingerprint = fingerprint[rarest]
        union, owner = _filter(union, owner, rarest)


def _join(
    union: GraphUnion, owner: Tensor, fingerprint: Tensor, kind: Tensor, like: Tensor
) -> Tensor:
    """Update the representatives by step 2.

    Two original graphs of one kind are isomorphic if the smallest leaf number of the
    branches is the same for both; the first graph then represents both.

    Args:
        union: The b branches of the original graphs, in stable colours.
        owner: The original graph of each branch, [b].
        fingerprint: The fingerprint of each branch, [b].
        kind: The kind of each original graph, [g].
        like: The representative of each original graph so far, [g].

    Returns:
        The new representatives, [g].
    """
    if not owner.numel():
        return like
    leaf = rank_pairs(fingerprint, _leaves(union, fingerprint))
    least = torch.full_like(kind, int(leaf.max()) + 1)
    least.scatter_reduce_(0, owner, leaf, "amin")
    owners = torch.unique(owner)
    both = rank_pairs(kind[owners], least[owners])
    first = torch.full((int(both.max()) + 1,), kind.numel(), dtype=torch.long)
    first.scatter_reduce_(0, both, owners, "amin")
    representative = torch.arange(kind.numel())
    representative[owners] = first[both]
    return representative[like]


def _filter(
    union: GraphUnion, owner: Tensor, mask: Tensor
) -> tuple[GraphUnion, Tensor]:
    """Return the branches selected by a boolean mask, [b], and their original graphs.

    Args:
        union: The b branches.
        owner: The original graph of each branch, [b].
        mask: Whether to select each branch, [b].
    """
    graphs = mask.nonzero().flatten()
    return union.select(graphs), owner[graphs]


def _rarest(owner: Tensor, fingerprint: Tensor) -> Tensor:
    """Select the branches with the rarest fingerprint of each original graph.

    If several fingerprints are equally rare, the smallest one is taken.

    Args:
        owner: The original graph of each branch, [b].
        fingerprint: The fingerprint of each branch, [b].

    Returns:
        A boolean mask of the selected branches, [b].
    """
    if not owner.numel():
        return torch.zeros(0, dtype=torch.bool)
    both = rank_pairs(owner, fingerprint)
    often = rank_pairs(torch.bincount(both)[both], fingerprint)
    least = torch.full((int(owner.max()) + 1,), int(often.max()), dtype=torch.long)
    return often == least.scatter_reduce_(0, owner, often, "amin")[owner]


def _split_by_search(union: GraphUnion, undecided: Tensor, kind: Tensor) -> None:
    """Compare undecided graphs of one kind pair by pair; update `kind` in place.

    Args:
        union: All graphs in their stable colours.
        undecided: Indices of the graphs to compare.
        kind: The kind of every graph, [g]. A graph that is not isomorphic to any
            earlier graph of its kind gets a new kind.
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
    """Search with backtracking for an isomorphism between two graphs.

    Args:
        pair: A union of the two graphs, in their stable colours.

    Raises:
        GraphError: If the search refined more than `SEARCH_LIMIT` nodes.
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
