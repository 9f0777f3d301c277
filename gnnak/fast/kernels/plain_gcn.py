"""The kernels of GCN in plain PyTorch."""

import torch
from torch import Tensor

from gnnak.fast.kernels.members import members
from gnnak.fast.kernels.records import Edges
from gnnak.subgraphs.groups import Groups


def gcn_scale(like: Tensor, edges: Edges) -> Tensor:
    """(1 + number of edges j -> i, j != i) to the power of -1/2, [m].

    Args:
        like: A tensor of the wanted type.
        edges: The edge copies.
    """
    key, row = members(edges.by_target)
    from_others = (edges.source.index_select(0, row) != key).to(like.dtype)
    degree = like.new_ones(len(edges.by_target)).index_add(0, key, from_others)
    return degree.rsqrt()


def gcn_sum(
    h: Tensor, scale: Tensor, bias: Tensor | None, end: Tensor, groups: Groups
) -> Tensor:
    """scale_i (scale_i h_i + sum over edges with j of scale_j h_j, j != i) + bias.

    Args:
        h: States of the copies, [m, w].
        scale: A factor for each copy, [m].
        bias: What is added to every row, [w].
        end: The end j of each edge copy, [f].
        groups: The edge copies with one other end i.

    Returns:
        Sums, [m, w].
    """
    key, row = members(groups)
    other = end.index_select(0, row)
    scaled = scale[:, None] * h
    sent = torch.where((other != key)[:, None], scaled.index_select(0, other), 0)
    out = scale[:, None] * scaled.index_add(0, key, sent)
    return out if bias is None else out + bias
