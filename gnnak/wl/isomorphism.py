"""Compute the isomorphism classes of small coloured graphs."""

from dataclasses import replace

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.wl.inputs import GraphUnion
from gnnak.wl.interning import rank, rank_multisets, rank_pairs
from gnnak.wl.refinement import color_refinement, stable


def refined(union: GraphUnion) -> tuple[GraphUnion, Tensor]:
    """Return the graphs with stable 1-WL colours, and their `fingerprints`, [g]."""
    coloring = stable(color_refinement(union))
    fingerprints = coloring.fingerprints(union.num_graphs)
    return replace(union, node_color=coloring.color), fingerprints


def first_shared(union: GraphUnion) -> Tensor:
    """Mark, [n], each graph's nodes of the lowest colour that several nodes have."""
    if not union.num_nodes:
        return torch.zeros(0, dtype=torch.bool)
    size = int(union.node_color.max()) + 1
    key = rank(union.graph * size + union.node_color)
    shared = (torch.bincount(key)[key] > 1).nonzero().flatten()
    least = torch.full((union.num_graphs,), size, dtype=torch.long)
    least.scatter_reduce_(0, union.graph[shared], union.node_color[shared], "amin")
    return union.node_color == least[union.graph]


def individualise(union: GraphUnion, nodes: Tensor) -> GraphUnion:
    """Give each of `nodes`, at most one per graph, a colour that no other node has."""
    mark = torch.zeros_like(union.node_color)
    mark[nodes] = 1
    return replace(union, node_color=rank_pairs(union.node_color, mark))


def branches(union: GraphUnion, nodes: Tensor) -> GraphUnion:
    """Copy the graph of each of `nodes`; in the copy, give the node a unique colour."""
    copies = union.select(union.graph[nodes])
    begin = torch.cumsum(union.sizes, 0) - union.sizes
    first = torch.cumsum(copies.sizes, 0) - copies.sizes
    return individualise(copies, first + nodes - begin[union.graph[nodes]])


SEARCH_LIMIT = 100_000
"""The backtracking search for one pair of graphs runs 1-WL on at most this many nodes
in total."""

UNFOLD_LIMIT, OWN_LIMIT = 1_000_000, 100_000
"""Largest number of nodes of the copies in `_unfold`: of all copies, and of the copies
of one graph. If it is exceeded, the remaining graphs are compared pair by pair."""


def isomorphism_classes(union: GraphUnion) -> Tensor:
    """Return the number of the isomorphism class of each coloured graph, [g]."""
    colored, kind = refined(union)
    if not kind.numel():
        return kind
    kind, same_as, undecided = _unfold(colored, kind)
    _split_by_search(colored, torch.unique(same_as[undecided[same_as]]), kind)
    return rank(kind[same_as])


def representatives(union: GraphUnion) -> Tensor:
    """Map each graph to the first graph that colours prove isomorphic to it, [g]."""
    colored, kind = refined(union)
    own = torch.arange(union.num_graphs)
    return _join(colored, own, kind, kind, own)


def pointed_classes(union: GraphUnion) -> Tensor:
    """Number nodes, [n]; equal iff a graph isomorphism maps one to the other."""
    return isomorphism_classes(branches(union, torch.arange(union.num_nodes)))


def _leaves(union: GraphUnion, kind: Tensor) -> Tensor:
    """Return a code per graph, [g]; graphs of equal code and `kind` are isomorphic."""
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
    """Find isomorphic graphs without a search, by giving single nodes unique colours.

    Returns three tensors, [g]. First, a number that differs only for graphs that are
    not isomorphic. Second, the first graph known to be isomorphic to each graph.
    Third, whether a search is still needed.
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
    """Update `same_as`, [g]: the first graph known to be isomorphic to each graph.

    Graph i of `union` is a copy of graph `owner[i]`, but a few of its nodes may have
    unique colours. Its 1-WL result is the number `fingerprint[i]`. Graphs with
    different `kind` are not isomorphic.
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
    graphs = mask.nonzero().flatten()
    return union.select(graphs), owner[graphs]


def _rarest(owner: Tensor, fingerprint: Tensor) -> Tensor:
    """Return a mask: for each owner, its graphs with the rarest fingerprint."""
    if not owner.numel():
        return torch.zeros(0, dtype=torch.bool)
    both = rank_pairs(owner, fingerprint)
    often = rank_pairs(torch.bincount(both)[both], fingerprint)
    least = torch.full((int(owner.max()) + 1,), int(often.max()), dtype=torch.long)
    return often == least.scatter_reduce_(0, owner, often, "amin")[owner]


def _split_by_search(union: GraphUnion, undecided: Tensor, kind: Tensor) -> None:
    """Change `kind` so that undecided graphs of equal `kind` are isomorphic."""
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
