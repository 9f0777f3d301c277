"""PNA*'s message inputs and its four aggregations, the plain PyTorch reference."""

import torch
from torch import Tensor

from gnnak.fast.kernels.plain.gather import group_members
from gnnak.fast.kernels.records import Edges
from gnnak.subgraphs.groups import Groups

LEAST = 1e-5
"""Added to a variance before the square root, so that its gradient stays finite."""


def pair_sum(
    at_target: Tensor, at_source: Tensor, at_edge: Tensor | None, edges: Edges
) -> Tensor:
    """Return `at_target[i] + at_source[j] + at_edge[r]` per edge copy j -> i, [f, c].

    The first Linear of PNA*'s message network reads `[c_i, c_j, e_r]`. It is computed
    as three smaller products, one row per copy or edge, whose rows are added here; the
    concatenation, with one wide row per edge copy, is never built.

    Args:
        at_target: Products of the target states, [m, c].
        at_source: Products of the source states, [m, c].
        at_edge: Products of the states of the graph's edges r, [e, c]; None = no edge
            states.
        edges: The edge copies.
    """
    out = at_target.index_select(0, edges.target)
    out = out + at_source.index_select(0, edges.source)
    return out if at_edge is None else out + at_edge.index_select(0, edges.edge)


def pna_pool(message: Tensor, groups: Groups) -> Tensor:
    """Return `[mean || min || max || std]` of the rows of each group, [k, 4c].

    std = sqrt(variance + `LEAST`), with the biased variance. An empty group has mean,
    min and max 0 and variance 0.

    Args:
        message: Rows, [f, c], sorted by group; padding rows come last.
        groups: The rows of each group, as row pointers alone (`order` is None).
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

    Where several rows of a group share the minimum or maximum, each gets an equal part
    of its gradient. Padding rows get zero.

    Args:
        grad: Gradient of the pooled rows, [k, 4c].
        message: As in `pna_pool`.
        pooled: The result of `pna_pool`, [k, 4c].
        groups: As in `pna_pool`.
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
    """Return the number of rows of each group, at least 1, as [k, 1]."""
    return groups.ptr.diff().clamp(min=1)[:, None]
