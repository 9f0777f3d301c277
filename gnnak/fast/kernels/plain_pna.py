"""The kernels of PNA* in plain PyTorch."""

import torch
from torch import Tensor

from gnnak.fast.kernels.members import members
from gnnak.fast.kernels.records import Edges
from gnnak.subgraphs.groups import Groups

LEAST = 1e-5
"""What is added to a variance before its root is taken."""


def pair_sum(
    at_target: Tensor, at_source: Tensor, at_edge: Tensor | None, edges: Edges
) -> Tensor:
    """For every edge copy the sum of its rows of three tensors, [f, c].

    Args:
        at_target: Rows of the copies that edges enter, [m, c].
        at_source: Rows of the copies that edges leave, [m, c].
        at_edge: Rows of the edges, [e, c]; None = none.
        edges: The edge copies.
    """
    out = at_target.index_select(0, edges.target)
    out = out + at_source.index_select(0, edges.source)
    return out if at_edge is None else out + at_edge.index_select(0, edges.edge)


def pna_pool(message: Tensor, groups: Groups) -> Tensor:
    """Mean, minimum, maximum and deviation of each group's rows, [k, 4c].

    The deviation is the root of the variance and `LEAST`; all else is zero where a
    group has no row.

    Args:
        message: Rows, [f, c], in the order of the groups.
        groups: Which rows belong together.
    """
    key, row = members(groups)
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
    """Gradient of `pna_pool`, [f, c]; rows that are equally extreme share theirs.

    Args:
        grad: Of the pooled rows, [k, 4c].
        message: As of `pna_pool`, and so `groups`.
        pooled: What it gave, [k, 4c].
        groups: Which rows belong together.
    """
    key, row = members(groups)
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
    return groups.ptr.diff().clamp(min=1)[:, None]
