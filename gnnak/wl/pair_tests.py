r"""Subgraph Weisfeiler-Leman tests: refine colours of pairs (root u, node v).

The tests are those of Zhang et al., "A Complete Expressiveness Hierarchy for Subgraph
GNNs via Subgraph Weisfeiler-Lehman Tests" (2023). The colour $c(u, v)$ belongs to node
$v$ in the subgraph $S_u$ rooted at $u$; the subgraph is an egonet or the whole graph of
$u$. Initially, $c(u, v)$ is the colour of node $v$, together with the mark $[u = v]$
if roots are marked. One round replaces $c(u, v)$ by the tuple of $c(u, v)$ and:

| test | what one round collects for the pair $(u, v)$ |
|---|---|
| SWL | inside: $\{(e_{wv}, c(u, w)) : w \in N(v)\}$ |
| PSWL | inside, and own: $c(v, v)$ |
| GSWL | inside, and context: $\{c(w, v) : v \in S_w\}$ |
| SSWL | inside, and across: $\{(e_{wu}, c(w, v)) : w \in N(u)\}$ |
| LFWL(2) | $\{(e_{uw}, e_{wv}, c(u, w), c(w, v)) : w \in N(v)\}$ |
| SLFWL(2) | the same multiset, over $w \in N(u) \cup N(v)$ |

Here $\{\}$ is a multiset, $N$ are the neighbours, and $e$ is the colour of an edge. A
multiset contains only those pairs $(u, w)$ and $(w, v)$ for which the node is in the
subgraph.

The first four tests compare graphs by one of two readouts. `vs` collects
$s_u = \{c(u, v)\}_v$ for each subgraph, then the multiset of all $s_u$. `sv` collects
$s_v = \{c(u, v)\}_u$ for each node, then the multiset of all $s_v$. LFWL(2) and
SLFWL(2) compare the multisets of the colours of all pairs.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from gnnak.wl.interning import rank_multisets, rank_pairs, rank_rows
from gnnak.wl.pairs import Pairs, Steps, across_steps, folklore_steps, inside_steps
from gnnak.wl.refinement import Coloring
from gnnak.wl.union import GraphUnion

Readout = Literal["vs", "sv"]
READOUTS: tuple[str, ...] = get_args(Readout)
"""Values of the option `readout`. `vs` pools the nodes of each subgraph first, then the
subgraphs. `sv` pools first, for each node, its colours in all subgraphs, then the
nodes."""


class PairTest(NamedTuple):
    """What one round of a subgraph Weisfeiler-Leman test collects for each pair."""

    definition: str
    """The name of the test in the literature, and what a round collects, in words."""
    steps: tuple[Callable[[GraphUnion, Pairs], Steps], ...]
    """Functions that find the entries of the multisets that a round collects."""
    own: bool = False
    """Whether the new colour of (u, v) includes the colour of (v, v)."""
    context: bool = False
    """Whether the new colour of (u, v) includes the multiset of the colours of (w, v),
    over all subgraphs w that contain v."""
    pooled_at_once: bool = False
    """Whether graphs are compared by the multiset of the colours of all their pairs,
    instead of one of `READOUTS`."""


PAIR_TESTS: dict[str, PairTest] = {
    "swl": PairTest("SWL: neighbours inside the subgraph", (inside_steps,)),
    "pswl": PairTest(
        "PSWL: as SWL, and the node in its own subgraph", (inside_steps,), own=True
    ),
    "gswl": PairTest(
        "GSWL: as SWL, and the node in all subgraphs", (inside_steps,), context=True
    ),
    "sswl": PairTest(
        "SSWL: as SWL, and the node in the subgraphs of the root's neighbours",
        (inside_steps, across_steps),
    ),
    "2-lfwl": PairTest(
        "LFWL(2): 2-FWL with w among the neighbours of v",
        (partial(folklore_steps, both=False),),
        pooled_at_once=True,
    ),
    "2-slfwl": PairTest(
        "SLFWL(2): 2-FWL with w among the neighbours of u or v",
        (partial(folklore_steps, both=True),),
        pooled_at_once=True,
    ),
}
"""Maps the name of each subgraph Weisfeiler-Leman test to its definition. The module's
docstring has the equations."""


def pair_refinement(
    union: GraphUnion,
    test: str,
    num_hops: int | None = None,
    marked: bool = True,
    readout: str = "vs",
) -> Iterator[Coloring]:
    """Run a subgraph WL test: yield the result of every round, the stable one last.

    Args:
        union: The graphs.
        test: A key of `PAIR_TESTS`; the module's docstring has the definitions.
        num_hops: Radius of the egonets; None = every subgraph is the whole graph.
        marked: Whether roots have an initial colour that no other node has.
        readout: One of `READOUTS`; ignored by tests that are pooled at once.

    Yields:
        The colours of the nodes after pooling: of each root u with readout `vs`, of
        each node v with readout `sv`. For tests that are pooled at once, the colours of
        all pairs.
    """
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
    """Return for each pair a number for the multiset of its entries, [t].

    A pair whose colour no other pair has gets the number of the empty multiset, to save
    time: its colour cannot be split.
    """
    shared = torch.bincount(color)[color] > 1
    entry = shared[steps.target].nonzero().flatten()
    seen = (color[source[entry]] for source in steps.sources)
    value = rank_rows(steps.label[entry], *seen)
    return rank_multisets(steps.target[entry], value, color.numel())


def _pooled(
    union: GraphUnion, pairs: Pairs, color: Tensor, readout: str | None
) -> Coloring:
    """Pool the colours of pairs, [t], by a readout; None = return them unpooled."""
    if readout is None:
        entries = torch.stack([pairs.root, pairs.node], dim=1)
        return Coloring(color, pairs.graph, pairs.own, entries)
    pool = pairs.root if readout == "vs" else pairs.node
    pooled = rank_multisets(pool, color, union.num_nodes)
    return Coloring(pooled, union.graph, torch.arange(union.num_nodes))
