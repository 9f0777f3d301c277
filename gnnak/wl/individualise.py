"""Individualise nodes and refine with 1-WL, in many graphs at once.

To individualise a node is to give it a colour that no other node of its graph has.
"""

import torch
from torch import Tensor

from gnnak.wl.interning import rank, rank_pairs
from gnnak.wl.refinement import color_refinement, stable
from gnnak.wl.union import GraphUnion


def refined(union: GraphUnion) -> tuple[GraphUnion, Tensor]:
    """Run 1-WL; return the union in its stable colours and the fingerprints, [g].

    Graphs have equal fingerprints iff they have the same multiset of stable colours.
    """
    coloring = stable(color_refinement(union))
    return union.recolored(coloring.color), coloring.fingerprints(union.num_graphs)


def first_shared(union: GraphUnion) -> Tensor:
    """Return a boolean mask, [n]: the nodes of the first shared colour of each graph.

    A colour is shared if two nodes of the graph have it.
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
    """Give each of `nodes` a colour that the other nodes of its old colour lack."""
    mark = torch.zeros_like(union.node_color)
    mark[nodes] = 1
    return union.recolored(rank_pairs(union.node_color, mark))


def branches(union: GraphUnion, nodes: Tensor) -> GraphUnion:
    """Return a union with one copy of a graph for each of `nodes`.

    The i-th graph is a copy of the graph of the i-th node, with that node
    individualised.
    """
    copies = union.select(union.graph[nodes])
    begin = torch.cumsum(union.sizes, 0) - union.sizes
    first = torch.cumsum(copies.sizes, 0) - copies.sizes
    return individualise(copies, first + nodes - begin[union.graph[nodes]])
