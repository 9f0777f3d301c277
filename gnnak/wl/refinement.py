"""Colourings, and 1-WL: colour refinement of all graphs of a union at once."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gnnak.wl.interning import rank, rank_multisets, rank_pairs
from gnnak.wl.union import GraphUnion


class Coloring(NamedTuple):
    """The colours of one round: of nodes, or of tuples of nodes."""

    color: Tensor
    """[t]: the colour of each item, as ranks 0, 1, 2, ..."""
    graph: Tensor
    """[t]: the graph of the union each item is in."""
    node: Tensor
    """[n]: the item that stands for each node: itself, or its diagonal tuple."""

    @property
    def num_colors(self) -> int:
        """Number of different colours over all graphs."""
        return int(self.color.max()) + 1 if self.color.numel() else 0

    def fingerprints(self, num_graphs: int) -> Tensor:
        """[g]: equal for two graphs iff they have the same multiset of colours."""
        return rank_multisets(self.graph, self.color, num_graphs)


def color_refinement(union: GraphUnion) -> Iterator[Coloring]:
    r"""1-WL: yield the colouring of every round, the stable one last.

    $$c^{(t+1)}_v = \left(c^{(t)}_v, \{ (e_{uv}, c^{(t)}_u) : u \in N(v) \}\right)$$

    with the pair's colour $e_{uv}$, which holds labels and direction. Round 0 is the
    initial colouring; a round that splits no colour is not yielded.
    """
    items = torch.arange(union.num_nodes)
    color = rank(union.node_color)
    while True:
        coloring = Coloring(color, union.graph, items)
        yield coloring
        color = rank_pairs(color, _around(union, color))
        if not color.numel() or int(color.max()) + 1 == coloring.num_colors:
            return


def _around(union: GraphUnion, color: Tensor) -> Tensor:
    """Rank the multiset around each node; 0 where the node's colour is its alone."""
    crowded = torch.bincount(color)[color] > 1
    source, target = union.edge_index
    edge = crowded[target].nonzero().flatten()
    seen = rank_pairs(union.edge_color[edge], color[source[edge]])
    return rank_multisets(target[edge], seen, union.num_nodes)


def stable(rounds: Iterator[Coloring]) -> Coloring:
    """Run a refinement to its end and return the stable colouring."""
    for coloring in rounds:
        last = coloring
    return last
