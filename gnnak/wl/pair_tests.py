r"""Subgraph Weisfeiler-Leman tests: refine colours of pairs (root u, node v).

The tests are those of Zhang et al., "A Complete Expressiveness Hierarchy for Subgraph
GNNs via Subgraph Weisfeiler-Lehman Tests" (2023). The colour $c(u, v)$ belongs to node
$v$ in the subgraph $S_u$ rooted at $u$, an egonet or the whole graph. Initially, it is
the colour of node $v$, with the mark $[u = v]$ if roots are marked. One round replaces
$c(u, v)$ by the tuple of $c(u, v)$ and:

| test | what one round collects for the pair $(u, v)$ |
|---|---|
| SWL | inside: $\{(e_{wv}, c(u, w)) : w \in N(v)\}$ |
| PSWL | inside, and own: $c(v, v)$ |
| GSWL | inside, and context: $\{c(w, v) : v \in S_w\}$ |
| SSWL | inside, and across: $\{(e_{wu}, c(w, v)) : w \in N(u)\}$ |
| LFWL(2) | $\{(e_{uw}, e_{wv}, c(u, w), c(w, v)) : w \in N(v)\}$ |
| SLFWL(2) | the multiset of LFWL(2), but over $w \in N(u) \cup N(v)$ |

Here $\{\}$ is a multiset, $N$ are the neighbours, and $e$ is the colour of an edge.
Entries are left out if they need a pair that does not exist, such as $(u, w)$ with $w
\notin S_u$.

The first four tests compare graphs by a readout: `vs` by the multiset of all $s_u =
\{c(u, v)\}_v$, and `sv` by the multiset of all $s_v = \{c(u, v)\}_u$. LFWL(2) and
SLFWL(2) compare the multisets of the colours of all pairs.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from gnnak.graphs.adjacency import Neighbors, incoming
from gnnak.graphs.ragged import pointers, ragged_ranges
from gnnak.subgraphs import egonets
from gnnak.subgraphs.induce import find_sorted
from gnnak.wl.inputs import GraphUnion
from gnnak.wl.interning import rank_multisets, rank_pairs, rank_rows
from gnnak.wl.refinement import Coloring


class Pairs(NamedTuple):
    """All pairs (u, v) of a root u and a node v of its subgraph, sorted."""

    root: Tensor
    """[pairs]: the root u of each pair."""
    node: Tensor
    """[pairs]: the node v of each pair."""
    graph: Tensor
    """[pairs]: the graph of each pair."""
    own: Tensor
    """[n]: the index of the pair (v, v), for each node v."""
    key: Tensor
    """[pairs]: `u * n + v` of each pair (u, v), in ascending order."""

    @staticmethod
    def of(union: GraphUnion, num_hops: int | None) -> "Pairs":
        """List pairs (root, node) in egonets, or whole graphs if `num_hops` is None."""
        if num_hops is None:
            first = pointers(union.sizes)[:-1]
            root, node = ragged_ranges(first[union.graph], union.sizes[union.graph])
        else:
            arcs = union.edge_index[:, union.forward]
            subs = egonets(arcs, union.num_nodes, num_hops)
            root, node = subs.subgraph, subs.node
        own = (root == node).nonzero().flatten()
        key = root * union.num_nodes + node
        return Pairs(root, node, union.graph[root], own, key)

    def find(self, root: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        """Return the index of each pair (root, node), and whether the pair exists."""
        return find_sorted(self.key, root * self.own.numel() + node)


class Steps(NamedTuple):
    """The entries (elements) of the multisets that a round of a `PairTest` collects."""

    target: Tensor
    """[entries]: the index of the pair (u, v) whose multiset contains the entry."""
    label: Tensor
    """[entries]: the colour of an entry's edge, or one number for its two edges."""
    sources: tuple[Tensor, ...]
    """[entries]: the pair, as an index, whose colour is the first colour of each entry.
    If entries have two colours, a second tensor has the pairs of the second colours."""


def inside_steps(union: GraphUnion, pairs: Pairs, across: bool = False) -> Steps:
    """Find the elements of the multisets "inside" or "across" in the module's table."""
    near = incoming(union.edge_index, union.num_nodes)
    target, entry = ragged_ranges(*near.rows(pairs.root if across else pairs.node))
    root, node = pairs.root[target], near.node[entry]
    if across:
        root, node = near.node[entry], pairs.node[target]
    source, found = pairs.find(root, node)
    label = union.edge_color[near.edge[entry]]
    return Steps(target[found], label[found], (source[found],))


def folklore_steps(union: GraphUnion, pairs: Pairs, both: bool) -> Steps:
    """Find the elements of the multisets of LFWL(2) or, if `both`, of SLFWL(2)."""
    near = incoming(union.edge_index, union.num_nodes)
    size = max(union.num_nodes, 1)
    ends = (pairs.node, pairs.root) if both else (pairs.node,)
    lists = [ragged_ranges(*near.rows(end)) for end in ends]
    keys = [target * size + near.node[entry] for target, entry in lists]
    key = torch.unique(torch.cat(keys)) if both else keys[0]
    target, via = key // size, key % size
    root, node = pairs.root[target], pairs.node[target]
    first, first_found = pairs.find(root, via)
    second, second_found = pairs.find(via, node)
    found = first_found & second_found
    label = rank_pairs(
        _edge_label(union, near, root, via), _edge_label(union, near, via, node)
    )
    return Steps(target[found], label[found], (first[found], second[found]))


def _edge_label(
    union: GraphUnion, near: Neighbors, source: Tensor, target: Tensor
) -> Tensor:
    """Return 1 + the colour of each edge source-target; 0 if there is no such edge."""
    place, found = find_sorted(near.key, target * union.num_nodes + source)
    if not near.key.numel():
        return torch.zeros_like(source)
    return torch.where(found, union.edge_color[near.edge[place]] + 1, 0)


Readout = Literal["vs", "sv"]
READOUTS: tuple[str, ...] = get_args(Readout)


class PairTest(NamedTuple):
    """A subgraph WL test: what the new colour of a pair (root u, node v) depends on."""

    steps: tuple[Callable[[GraphUnion, Pairs], Steps], ...]
    """Each function finds the elements of one multiset for every pair (u, v)."""
    own: bool = False
    """Whether the new colour of (u, v) includes the colour of (v, v)."""
    context: bool = False
    """Whether the new colour of (u, v) includes the colours of (w, v), for all w."""
    pooled_at_once: bool = False
    """Whether graphs are compared by the multiset of all pairs' colours, without a
    readout."""


PAIR_TESTS: dict[str, PairTest] = {
    "swl": PairTest((inside_steps,)),
    "pswl": PairTest((inside_steps,), own=True),
    "gswl": PairTest((inside_steps,), context=True),
    "sswl": PairTest((inside_steps, partial(inside_steps, across=True))),
    "2-lfwl": PairTest((partial(folklore_steps, both=False),), pooled_at_once=True),
    "2-slfwl": PairTest((partial(folklore_steps, both=True),), pooled_at_once=True),
}
"""The subgraph Weisfeiler-Leman tests; the module's docstring has the equations."""


def pair_refinement(
    union: GraphUnion,
    test: str,
    num_hops: int | None = None,
    marked: bool = True,
    readout: str = "vs",
) -> Iterator[Coloring]:
    """Run a subgraph WL test: yield the result of every round, the stable one last."""
    chosen = PAIR_TESTS[test]
    pairs = Pairs.of(union, num_hops)
    steps = [find(union, pairs) for find in chosen.steps]
    mark = (pairs.root == pairs.node).long() if marked else torch.zeros_like(pairs.root)
    color = rank_pairs(union.node_color[pairs.node], mark)
    while True:
        yield _pooled(union, pairs, color, None if chosen.pooled_at_once else readout)
        if not color.numel():
            return
        columns = [_collect(color, step) for step in steps]
        if chosen.own:
            columns.append(color[pairs.own[pairs.node]])
        if chosen.context:
            columns.append(rank_multisets(pairs.node, color, union.num_nodes))
            columns[-1] = columns[-1][pairs.node]
        finer = rank_rows(color, *columns)
        if int(finer.max()) == int(color.max()):
            return
        color = finer


def _collect(color: Tensor, steps: Steps) -> Tensor:
    """Return the rank of the multiset that a round collects for each pair, [pairs]."""
    # A colour that only one pair has cannot be split: the pair is skipped.
    shared = torch.bincount(color)[color] > 1
    entry = shared[steps.target].nonzero().flatten()
    seen = (color[source[entry]] for source in steps.sources)
    value = rank_rows(steps.label[entry], *seen)
    return rank_multisets(steps.target[entry], value, color.numel())


def _pooled(
    union: GraphUnion, pairs: Pairs, color: Tensor, readout: str | None
) -> Coloring:
    if readout is None:
        entries = torch.stack([pairs.root, pairs.node], dim=1)
        return Coloring(color, pairs.graph, pairs.own, entries)
    pool = pairs.root if readout == "vs" else pairs.node
    pooled = rank_multisets(pool, color, union.num_nodes)
    return Coloring(pooled, union.graph, torch.arange(union.num_nodes))
