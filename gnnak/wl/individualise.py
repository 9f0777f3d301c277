"""Individualise nodes and refine colours with 1-WL, in many graphs at once.

To individualise a node means to give the node a colour that no other node of its graph
has. 1-WL is the Weisfeiler-Leman test, also called colour refinement.
"""

import torch
from torch import Tensor

from gnnak.wl.interning import rank, rank_pairs
from gnnak.wl.refinement import color_refinement, stable
from gnnak.wl.union import GraphUnion


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
