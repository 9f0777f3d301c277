"""GCN's normalised neighbour sum, the plain PyTorch reference."""

import torch
from torch import Tensor

from gnnak.fast.kernels.plain.gather import group_members
from gnnak.fast.kernels.records import Edges
from gnnak.subgraphs.groups import Groups


def gcn_scale(like: Tensor, edges: Edges) -> Tensor:
    """Return d_i^(-1/2), [m], with d_i = 1 + number of edges j -> i with j != i.

    Self loops of the graph are not counted: GCN gives every node exactly one.

    Args:
        like: A tensor with the dtype and device of the result.
        edges: The edge copies.
    """
    key, row = group_members(edges.by_target)
    from_others = (edges.source.index_select(0, row) != key).to(like.dtype)
    degree = like.new_ones(len(edges.by_target)).index_add(0, key, from_others)
    return degree.rsqrt()


def gcn_sum(
    h: Tensor, scale: Tensor, bias: Tensor | None, end: Tensor, groups: Groups
) -> Tensor:
    """Return scale_i (scale_i h_i + sum of scale_j h_j over neighbours j != i) + bias.

    With the edge copies grouped by target and `end` their sources this is GCN's forward
    pass; grouped by source, with `end` their targets and without a bias, it is the
    gradient of `h`.

    Args:
        h: States of the node copies, [m, w].
        scale: The result of `gcn_scale`, [m].
        bias: Added to every row, [w]; None = no bias.
        end: The end j of each edge copy, [f].
        groups: The edge copies grouped by their other end, i; m groups.

    Returns:
        Sums, [m, w].
    """
    key, row = group_members(groups)
    other = end.index_select(0, row)
    scaled = scale[:, None] * h
    sent = torch.where((other != key)[:, None], scaled.index_select(0, other), 0)
    out = scale[:, None] * scaled.index_add(0, key, sent)
    return out if bias is None else out + bias
