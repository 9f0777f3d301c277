"""The inputs of PNA*'s messages, and PNA*'s four aggregations, in PyTorch.

PNA* is PNA (principal neighbourhood aggregation) with a degree embedding in place of
degree scalers. These functions are the reference of the Triton kernels. A node copy is
a node as seen in one rooted subgraph, and an edge copy is an edge as it occurs in one
rooted subgraph.
"""

import torch
from torch import Tensor

from gnnak.fast.kernels.plain.gather import group_members
from gnnak.fast.kernels.records import Edges
from gnnak.subgraphs.groups import Groups

LEAST = 1e-5
"""Added to a variance before the square root, which has no finite gradient at 0."""


def pair_sum(
    at_target: Tensor, at_source: Tensor, at_edge: Tensor | None, edges: Edges
) -> Tensor:
    """Add three rows for each edge of each rooted subgraph, [f, c].

    For an edge from node copy j to node copy i (nodes as seen in that subgraph), the
    sum is `at_target[i] + at_source[j] + at_edge[r]`; r is the edge's index in the
    graph. The sum replaces a Linear of the concatenated states of target, source and
    edge, so the concatenation is never stored.

    Args:
        at_target: The row that each node copy contributes as a target, [m, c].
        at_source: The row that each node copy contributes as a source, [m, c].
        at_edge: The row that each edge of the graph contributes, [e, c]; None = no
            such row.
        edges: The f edges of all rooted subgraphs.
    """
    out = at_target.index_select(0, edges.target)
    out = out + at_source.index_select(0, edges.source)
    return out if at_edge is None else out + at_edge.index_select(0, edges.edge)


def pna_pool(message: Tensor, groups: Groups) -> Tensor:
    """Return `[mean || min || max || std]` of the rows of each group, [k, 4c].

    std = sqrt(variance + `LEAST`), with the biased variance. An empty group has mean,
    min and max 0 and variance 0.

    Args:
        message: One message for each of the f edges of all rooted subgraphs, [f, c],
            sorted by group; padding rows come last.
        groups: The messages that each of k groups aggregates. Messages are already
            sorted, so `groups.order` is None.
    """
    key, row = group_members(groups)
    rows, zero = message[: row.numel()], message.new_zeros(len(groups), message.size(1))
    count = _counts(groups).to(message.dtype)
    mean = zero.index_add(0, key, rows) / count
    off = rows - mean.index_select(0, key)
    deviation = (zero.index_add(0, key, off * off) / count + LEAST).sqrt()
    at = key[:, None].expand_as(rows)
    low, high = (
        zero.scatter_reduce(0, at, rows, which, include_self=False)
        for which in ("amin", "amax")
    )
    return torch.cat([mean, low, high, deviation], dim=1)


def pna_pool_backward(
    grad: Tensor, message: Tensor, pooled: Tensor, groups: Groups
) -> Tensor:
    """Compute the gradient of `pna_pool` with respect to `message`, [f, c].

    If several rows of a group attain the minimum (or maximum), the gradient of that
    minimum (or maximum) is divided equally among these rows. The gradient of padding
    rows is zero.

    Args:
        grad: Gradient of the result of `pna_pool`, [k, 4c].
        message: The messages, as in `pna_pool`.
        pooled: The result of `pna_pool`, [k, 4c].
        groups: The k groups of messages, as in `pna_pool`.
    """
    key, row = group_members(groups)
    rows, count = message[: row.numel()], _counts(groups)
    mean, low, high, deviation = pooled.chunk(4, dim=1)
    of_mean, of_low, of_high, of_deviation = grad.chunk(4, dim=1)
    off = rows - mean.index_select(0, key)
    back = (of_mean / count).index_select(0, key)
    back = back + off * (of_deviation / (count * deviation)).index_select(0, key)
    for extreme, of_extreme in ((low, of_low), (high, of_high)):
        is_it = (rows == extreme.index_select(0, key)).to(rows.dtype)
        shares = torch.zeros_like(extreme).index_add(0, key, is_it).clamp(min=1)
        back = back + is_it * (of_extreme / shares).index_select(0, key)
    out = torch.zeros_like(message)
    out[: row.numel()] = back
    return out


def _counts(groups: Groups) -> Tensor:
    """Return the number of rows of each of k groups, [k, 1], to divide sums by.

    For an empty group this is 1, which avoids a division by zero.
    """
    return groups.ptr.diff().clamp(min=1)[:, None]
