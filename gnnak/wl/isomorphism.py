"""The exact HASH: isomorphism classes of small coloured graphs.

Individualisation and refinement, batched over all graphs of a union:

1. 1-WL splits the graphs into kinds; isomorphic graphs stay together.
2. In every graph one node of the first shared colour is singled out and 1-WL run again,
   until no colour is shared. Two graphs that end with the same colours are isomorphic:
   matching the colours is the isomorphism. One stands for both from here on.
3. Graphs of one kind are split by singling out *every* node of the first shared colour;
   each then follows its rarest outcome, again by steps 2 and 3. If that ends, it
   decides, since the choices do not depend on the numbering of nodes.
4. What grows too large is decided pair by pair, by a search with backtracking.
"""

import torch
from torch import Tensor

from gnnak.errors import GraphError
from gnnak.wl.individualise import branches, first_shared, refined, single_out
from gnnak.wl.interning import rank, rank_multisets, rank_pairs
from gnnak.wl.union import GraphUnion

SEARCH_LIMIT = 100_000
"""Nodes, over all refinements, that one comparison may take before it is given up."""

UNFOLD_LIMIT, OWN_LIMIT = 1_000_000, 100_000
"""Nodes of the branches of all graphs, and of one, before comparing pair by pair."""


def isomorphism_classes(union: GraphUnion) -> Tensor:
    """Return the class of every graph, [g]: equal if and only if isomorphic.

    Isomorphisms respect node colours and the colours of pairs. Worst cases (graphs
    alike to 1-WL even after many nodes are singled out) are given up with an error
    after refining `SEARCH_LIMIT` nodes; egonets are far from them.

    Raises:
        GraphError: If two graphs were too hard to compare.

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
    _merge(colored, torch.unique(like[doubt[like]]), kind)
    return rank(kind[like])


def representatives(union: GraphUnion) -> Tensor:
    """A graph of the union, [g], that each is isomorphic to and that stands for it.

    Found by step 2 alone: fast and never given up, but some isomorphic graphs may be
    left with representatives of their own.
    """
    colored, kind = refined(union)
    own = torch.arange(union.num_graphs)
    return _join(colored, own, kind, kind, own)


def pointed_classes(union: GraphUnion) -> Tensor:
    """Return a colour of every node, [n]: equal iff an isomorphism maps one to other.

    Nodes of different graphs of the union are compared as well.
    """
    pointed = union.select(union.graph)
    first = torch.searchsorted(pointed.graph, torch.arange(union.num_nodes))
    begin = torch.cumsum(union.sizes, 0) - union.sizes
    marked = first + torch.arange(union.num_nodes) - begin[union.graph]
    mark = torch.zeros_like(pointed.graph)
    mark[marked] = 1
    return isomorphism_classes(pointed.recolored(rank_pairs(pointed.node_color, mark)))


def _leaves(union: GraphUnion, kind: Tensor) -> Tensor:
    """[g]: equal for two graphs of a kind only if one path of choices fits both."""
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
        union, fingerprint = refined(single_out(union, chosen))
        level = torch.zeros_like(leaf)
        level[graphs] = fingerprint + 1
        leaf = rank_pairs(leaf, level)
    return leaf


def _unfold(union: GraphUnion, kind: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Split kinds and join isomorphic graphs, level by level, within the limits.

    Returns:
        Three tensors [g]: the finer kinds; a graph that each is isomorphic to and that
        stands for it; whether graphs of its kind may still differ.
    """
    owner = like = torch.arange(union.num_graphs)
    doubt = torch.zeros_like(kind, dtype=torch.bool)
    fingerprint = kind
    while True:
        like = _join(union, owner, fingerprint, kind, like)
        alive = torch.bincount(kind[torch.unique(like)])[kind[owner]] > 1
        union, owner = _keep(union, owner, alive & (like[owner] == owner))
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
        union, owner = _keep(union, owner, rarest)


def _join(
    union: GraphUnion, owner: Tensor, fingerprint: Tensor, kind: Tensor, like: Tensor
) -> Tensor:
    """Let the first graph of its kind with the same least leaf stand for each owner."""
    if not owner.numel():
        return like
    leaf = rank_pairs(fingerprint, _leaves(union, fingerprint))
    least = torch.full_like(kind, int(leaf.max()) + 1)
    least.scatter_reduce_(0, owner, leaf, "amin")
    owners = torch.unique(owner)
    both = rank_pairs(kind[owners], least[owners])
    first = torch.full((int(both.max()) + 1,), kind.numel(), dtype=torch.long)
    first.scatter_reduce_(0, both, owners, "amin")
    stands = torch.arange(kind.numel())
    stands[owners] = first[both]
    return stands[like]


def _keep(union: GraphUnion, owner: Tensor, kept: Tensor) -> tuple[GraphUnion, Tensor]:
    graphs = kept.nonzero().flatten()
    return union.select(graphs), owner[graphs]


def _rarest(owner: Tensor, fingerprint: Tensor) -> Tensor:
    """[b], bool: the branches with their owner's rarest (then least) fingerprint."""
    if not owner.numel():
        return torch.zeros(0, dtype=torch.bool)
    both = rank_pairs(owner, fingerprint)
    often = rank_pairs(torch.bincount(both)[both], fingerprint)
    least = torch.full((int(owner.max()) + 1,), int(often.max()), dtype=torch.long)
    return often == least.scatter_reduce_(0, owner, often, "amin")[owner]


def _merge(union: GraphUnion, rivals: Tensor, settled: Tensor) -> None:
    """Compare rivals that share a number in `settled`; unlike ones get a new one."""
    fresh = int(settled.max()) + 1
    known: dict[int, list[int]] = {}
    for graph in rivals.tolist():
        others = known.setdefault(int(settled[graph]), [])
        for other in others:
            if _isomorphic(union.select(torch.tensor([other, graph]))):
                settled[graph] = settled[other]
                break
        else:
            if others:
                settled[graph] = fresh
                fresh += 1
            others.append(graph)


def _isomorphic(pair: GraphUnion) -> bool:
    """Search for an isomorphism of two graphs in stable colours, completely."""
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
