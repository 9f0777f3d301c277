"""Singling nodes out and refining again, in many graphs at once."""

import torch
from torch import Tensor

from gnnak.wl.interning import rank, rank_pairs
from gnnak.wl.refinement import color_refinement, stable
from gnnak.wl.union import GraphUnion


def refined(union: GraphUnion) -> tuple[GraphUnion, Tensor]:
    """The union in its stable colours, and the fingerprint of each graph."""
    coloring = stable(color_refinement(union))
    return union.recolored(coloring.color), coloring.fingerprints(union.num_graphs)


def first_shared(union: GraphUnion) -> Tensor:
    """[n], bool: the nodes of each graph's first colour that two of its nodes have."""
    if not union.num_nodes:
        return torch.zeros(0, dtype=torch.bool)
    size = int(union.node_color.max()) + 1
    key = rank(union.graph * size + union.node_color)
    shared = (torch.bincount(key)[key] > 1).nonzero().flatten()
    least = torch.full((union.num_graphs,), size, dtype=torch.long)
    least.scatter_reduce_(0, union.graph[shared], union.node_color[shared], "amin")
    return union.node_color == least[union.graph]


def single_out(union: GraphUnion, nodes: Tensor) -> GraphUnion:
    """Give each of `nodes` a colour that the others with its colour do not have."""
    mark = torch.zeros_like(union.node_color)
    mark[nodes] = 1
    return union.recolored(rank_pairs(union.node_color, mark))


def branches(union: GraphUnion, nodes: Tensor) -> GraphUnion:
    """One copy of its graph for each of `nodes`, with that node singled out."""
    copies = union.select(union.graph[nodes])
    begin = torch.cumsum(union.sizes, 0) - union.sizes
    first = torch.cumsum(copies.sizes, 0) - copies.sizes
    return single_out(copies, first + nodes - begin[union.graph[nodes]])
