"""Messages of GINE, GCN and PNA*: the PyTorch reference of the Triton kernels."""

import torch
from torch import Tensor

from gnnak.fast.kernels.plain.gather import group_members
from gnnak.fast.kernels.records import Edges, Lifted, Moments
from gnnak.subgraphs.groups import Groups


def messages(c: Tensor | Lifted, e: Tensor, eps: Tensor, edges: Edges) -> Tensor:
    """Return (1 + eps) c_i + sum over edges j -> i of ReLU(c_j + e_ji), as [m, w]."""
    c = c.stored() if isinstance(c, Lifted) else c
    states = e if edges.by_edge is None else e.index_select(0, edges.edge)
    sent = torch.relu(c.index_select(0, edges.source) + states)
    own = (1 + eps).to(c.dtype) * c
    return own.index_add(0, edges.target, sent.to(c.dtype))


def messages_backward(
    grad: Tensor,
    c: Tensor | Lifted,
    e: Tensor,
    eps: Tensor,
    edges: Edges,
    more: Tensor | None,
    with_eps: bool = True,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return gradients of `c`, `e` and `eps` (or None); add `more` to the first."""
    c = c.stored() if isinstance(c, Lifted) else c
    _, vjp, *_ = torch.func.vjp(lambda c, e, eps: messages(c, e, eps, edges), c, e, eps)
    grad_c, grad_e, grad_eps = vjp(grad)
    grad_c = grad_c if more is None else grad_c + more
    return grad_c, grad_e, grad_eps if with_eps else None


def gcn_scale(like: Tensor, edges: Edges) -> Tensor:
    """Return 1 / sqrt(1 + number of edges j -> i with j != i) per node copy i, [m]."""
    key, row = group_members(edges.by_target)
    dtype = torch.promote_types(like.dtype, torch.float)
    from_others = (edges.source.index_select(0, row) != key).to(dtype)
    degree = like.new_ones(len(edges.by_target), dtype=dtype)
    degree = degree.index_add(0, key, from_others)
    return degree.rsqrt()


def gcn_sum(
    h: Tensor, scale: Tensor, bias: Tensor | None, end: Tensor, groups: Groups
) -> Tensor:
    """Return scale_i (scale_i h_i + sum of scale_j h_j over neighbours j != i) + bias.

    `end` has the source of each edge copy or, in the backward pass, the target.
    """
    key, row = group_members(groups)
    other = end.index_select(0, row)
    scaled = scale[:, None] * h
    sent = torch.where((other != key)[:, None], scaled.index_select(0, other), 0)
    out = scale[:, None] * scaled.index_add(0, key, sent)
    return (out if bias is None else out + bias).to(h.dtype)


LEAST = 1e-5
"""Added to a variance before the square root, which has no finite gradient at 0."""


def pair_sum(
    at_target: Tensor,
    at_source: Tensor,
    at_edge: Tensor | None,
    edges: Edges,
    real: Tensor | None = None,
) -> tuple[Tensor, Moments | None]:
    """Add at_target[i], at_source[j], at_edge[r] for copy j -> i of edge r, [f, c]."""
    out = at_target.index_select(0, edges.target)
    out = out + at_source.index_select(0, edges.source)
    if at_edge is not None:
        out = out + at_edge.index_select(0, edges.edge)
    return out, None


def pna_pool(message: Tensor, groups: Groups) -> Tensor:
    """Pool messages sorted by group to `[mean || min || max || std]`, [groups, 4c]."""
    key, row = group_members(groups)
    rows, zero = message[: row.numel()], message.new_zeros(len(groups), message.size(1))
    count = groups.ptr.diff().clamp(min=1)[:, None].to(message.dtype)
    mean = zero.index_add(0, key, rows) / count
    off = rows - mean.index_select(0, key)
    deviation = (zero.index_add(0, key, off * off) / count + LEAST).sqrt()
    at, is_empty = key[:, None].expand_as(rows), groups.ptr.diff()[:, None] == 0
    # Start at infinity: with `include_self=False`, a gradient is divided by one row too
    # many if the extreme is equal to the value that is left out.
    extremes = [
        torch.full_like(zero, start).scatter_reduce(0, at, rows, which)
        for which, start in (("amin", torch.inf), ("amax", -torch.inf))
    ]
    low, high = (torch.where(is_empty, zero, extreme) for extreme in extremes)
    return torch.cat([mean, low, high, deviation], dim=1)


def pna_pool_backward(
    grad: Tensor, message: Tensor, pooled: Tensor, groups: Groups
) -> Tensor:
    """Return the gradient of the messages in `pna_pool`, [f, c]; zero for padding."""
    _, vjp, *_ = torch.func.vjp(lambda message: pna_pool(message, groups), message)
    return vjp(grad)[0]
