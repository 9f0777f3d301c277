"""Colourings, and 1-WL (colour refinement) of all graphs of a union at once."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.wl.interning import rank, rank_multisets, rank_pairs
from gnnak.wl.union import GraphUnion


class Coloring(NamedTuple):
    """The colours of one round. The coloured items are nodes, or tuples of nodes."""

    color: Tensor
    """[t]: the colour of each item, numbered 0, 1, 2, ..."""
    graph: Tensor
    """[t]: the graph of the union that each item belongs to."""
    node: Tensor
    """[n]: the item of each node v: v itself, or the tuple (v, ..., v)."""

    @property
    def num_colors(self) -> int:
        """Number of distinct colours over all graphs."""
        return int(self.color.max()) + 1 if self.color.numel() else 0

    def fingerprints(self, num_graphs: int) -> Tensor:
        """Return a number per graph, [g]: equal iff the multisets of colours are."""
        return rank_multisets(self.graph, self.color, num_graphs)


def color_refinement(union: GraphUnion) -> Iterator[Coloring]:
    r"""Run 1-WL: yield the colouring of every round, the stable one last.

    $$c^{(t+1)}_v = \left(c^{(t)}_v, \{ (e_{uv}, c^{(t)}_u) : u \in N(v) \}\right)$$

    where the pair colour $e_{uv}$ encodes edge labels and direction. Round 0 is the
    initial colouring; a round that splits no colour is not yielded.
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
    """Rank the multiset of neighbours' colours of each node, [n].

    Nodes whose colour no other node has cannot be split further; they are skipped and
    get the rank of the empty multiset.
    """
    shared = torch.bincount(color)[color] > 1
    source, target = union.edge_index
    edge = shared[target].nonzero().flatten()
    seen = rank_pairs(union.edge_color[edge], color[source[edge]])
    return rank_multisets(target[edge], seen, union.num_nodes)


def stable(rounds: Iterator[Coloring]) -> Coloring:
    """Run a refinement until it is stable and return the last colouring."""
    for coloring in rounds:
        last = coloring
    return last
