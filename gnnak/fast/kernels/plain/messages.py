"""Messages of GINE, GCN and PNA*: the PyTorch reference of the Triton kernels."""

import torch
from torch import Tensor

from gnnak.fast.kernels.plain.gather import group_members
from gnnak.fast.kernels.records import Edges, EdgeStates, Lifted
from gnnak.subgraphs.groups import Groups


def messages(c: Tensor | Lifted, e: EdgeStates, eps: Tensor, edges: Edges) -> Tensor:
    """Return (1 + eps) c_i + sum over edges j -> i of ReLU(c_j + e_ji), as [m, w].

    This is GINE's aggregation, in every rooted subgraph.

    Args:
        c: States c_i of the m node copies, [m, w]. A node copy is a node as seen in one
            rooted subgraph. `Lifted` states are not stored.
        e: States e_ji of the edges: one row per edge of the graph or, in affine form,
            one number per edge of each rooted subgraph (see `EdgeStates.at`).
        eps: GINE's learned scalar, [1].
        edges: The edges j -> i of all rooted subgraphs.
    """
    c = c.stored() if isinstance(c, Lifted) else c
    sent = torch.relu(c.index_select(0, edges.source) + _of_copies(e, edges))
    own = (1 + eps).to(c.dtype) * c
    return own.index_add(0, edges.target, sent.to(c.dtype))


def messages_backward(
    grad: Tensor,
    c: Tensor | Lifted,
    e: EdgeStates,
    eps: Tensor,
    edges: Edges,
    more: Tensor | None,
    with_eps: bool = True,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compute the gradients of `messages`.

    Args:
        grad: Gradient of the result of `messages`, [m, w].
        c: States of the m node copies (nodes as seen in one rooted subgraph), [m, w].
        e: Edge states, as in `messages`.
        eps: GINE's learned scalar, as in `messages`.
        edges: The edges of all rooted subgraphs, as in `messages`.
        more: Gradient of `c` from other uses of `c`, [m, w]. It is added to the
            gradient of `c` here to save a separate addition. None = no other use.
        with_eps: Whether to compute the gradient of `eps`.

    Returns:
        Gradients of `c` [m, w], of `e.values` (same shape) and of `eps` [1]; None for
        `eps` if its gradient is not computed.
    """
    c = c.stored() if isinstance(c, Lifted) else c
    states = _of_copies(e, edges)
    sent = c.index_select(0, edges.source) + states
    back = grad.index_select(0, edges.target) * (sent > 0)
    grad_c = ((1 + eps).to(c.dtype) * grad).index_add(0, edges.source, back)
    grad_c = grad_c if more is None else grad_c + more
    if e.number is None:
        of_edges = back.to(e.values.dtype)
        grad_e = torch.zeros_like(e.values).index_add(0, edges.edge, of_edges)
    else:
        back = back * (states > 0)
        of_slope = (back * e.number[:, None]).sum(dim=0)
        grad_e = torch.stack([of_slope, back.sum(dim=0)])
    if not with_eps:
        return grad_c, grad_e, None
    return grad_c, grad_e, (grad * c).sum().view(eps.shape).to(eps.dtype)


def _of_copies(e: EdgeStates, edges: Edges) -> Tensor:
    """Return the state of each edge copy, [f, w].

    There are f edge copies: edges as it occurs in one rooted subgraph. A state has w
    columns.
    """
    return e.rows() if e.number is not None else e.values.index_select(0, edges.edge)


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
