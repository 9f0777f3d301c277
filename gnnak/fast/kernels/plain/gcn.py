"""GCN's normalised neighbour sum: the PyTorch reference of the Triton kernels.

GCN runs in every rooted subgraph. A node copy is a node as seen in one rooted subgraph,
and an edge copy is an edge as it occurs in one rooted subgraph.
"""

import torch
from torch import Tensor

from gnnak.fast.kernels.plain.gather import group_members
from gnnak.fast.kernels.records import Edges
from gnnak.subgraphs.groups import Groups


def gcn_scale(like: Tensor, edges: Edges) -> Tensor:
    """Return GCN's factors d_i^(-1/2) for all m node copies i, [m].

    A node copy is a node as it occurs in one rooted subgraph. Its degree d_i is 1 + the
    number of edges j -> i with j != i in that subgraph. The 1 counts the self
    loop that GCN adds to every node.

    Args:
        like: Any tensor; the result gets its dtype and device.
        edges: The edges of all rooted subgraphs.
    """
    key, row = group_members(edges.by_target)
    from_others = (edges.source.index_select(0, row) != key).to(like.dtype)
    degree = like.new_ones(len(edges.by_target)).index_add(0, key, from_others)
    return degree.rsqrt()


def gcn_sum(
    h: Tensor, scale: Tensor, bias: Tensor | None, end: Tensor, groups: Groups
) -> Tensor:
    """Return scale_i (scale_i h_i + sum of scale_j h_j over neighbours j != i) + bias.

    This is GCN's forward pass if the edges are grouped by target and `end` holds their
    sources. With source and target swapped, and the gradient of the output as `h`,
    the function computes the gradient of the input.

    Args:
        h: One row for each of the m node copies, [m, w]. A node copy is a node as seen
            in one rooted subgraph.
        scale: The result of `gcn_scale`, [m].
        bias: Added to every row, [w]; None = no bias.
        end: For each of the f edges of all subgraphs, the node copy j whose row is
            summed, [f].
        groups: For each node copy i, the edges over which the sum runs; m groups.

    Returns:
        One sum per node copy i, [m, w].
    """
    key, row = group_members(groups)
    other = end.index_select(0, row)
    scaled = scale[:, None] * h
    sent = torch.where((other != key)[:, None], scaled.index_select(0, other), 0)
    out = scale[:, None] * scaled.index_add(0, key, sent)
    return out if bias is None else out + bias
