"""Run 1-WL (Weisfeiler-Leman, or colour refinement) on all graphs of a union at once.

`Coloring` is the result of one round, for 1-WL and for all other tests.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.wl.inputs import GraphUnion
from gnnak.wl.interning import rank, rank_multisets, rank_pairs


class Coloring(NamedTuple):
    """The colours after one round of a Weisfeiler-Leman (WL) test.

    A test colours either the nodes or the k-tuples of nodes of the graphs: its *items*.
    In shapes, t is the number of items of all graphs together.
    """

    color: Tensor
    """[t]: the colour (0, 1, 2, ...) of each of the t items. An item is what the test
    colours: a node or a tuple of nodes."""
    graph: Tensor
    """[t]: the index of the graph that each of the t items belongs to. An item is what
    the test colours: a node or a tuple of nodes."""
    node: Tensor
    """[n]: for each node v, the index in `color` of the colour of v. If the test
    colours tuples, this is the index of the tuple (v, ..., v)."""
    entries: Tensor | None = None
    """[t, k]: the nodes of each item, if the test colours some, but not all, k-tuples
    of nodes; otherwise None."""

    @property
    def num_colors(self) -> int:
        """Number of distinct colours over all graphs."""
        return int(self.color.max()) + 1 if self.color.numel() else 0

    def fingerprints(self, num_graphs: int) -> Tensor:
        """Return a number for every graph, [g].

        Two graphs have the same number iff they have the same multiset of colours.
        """
        return rank_multisets(self.graph, self.color, num_graphs)


def color_refinement(union: GraphUnion) -> Iterator[Coloring]:
    r"""Run 1-WL: yield the colouring of every round, the stable one last.

    $$c^{(t+1)}_v = \left(c^{(t)}_v, \{ (e_{uv}, c^{(t)}_u) : u \in N(v) \}\right)$$

    where $c^{(t)}_v$ is the colour of node $v$ in round $t$, and the pair colour
    $e_{uv}$ encodes edge labels and direction. Round 0 is the initial colouring; a
    round that splits no colour is not yielded.
    """
    items = torch.arange(union.num_nodes)
    color = rank(union.node_color)
    while True:
        coloring = Coloring(color, union.graph, items)
        yield coloring
        color = rank_pairs(color, _neighbourhoods(union, color))
        if not color.numel() or int(color.max()) + 1 == coloring.num_colors:
            return


def _neighbourhoods(union: GraphUnion, color: Tensor) -> Tensor:
    """Return for each node a number for the multiset of its neighbours' colours.

    The colour of a neighbour is combined with the colour of the edge. A node whose
    colour no other node has gets the number of the empty multiset, to save time: its
    colour cannot be split.
    """
    shared = torch.bincount(color)[color] > 1
    source, target = union.edge_index
    edge = shared[target].nonzero().flatten()
    seen = rank_pairs(union.edge_color[edge], color[source[edge]])
    return rank_multisets(target[edge], seen, union.num_nodes)


def stable(rounds: Iterator[Coloring]) -> Coloring:
    """Run all rounds of a test and return the last colouring, which is stable."""
    for coloring in rounds:
        last = coloring
    return last
