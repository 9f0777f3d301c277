"""GINE's sum of messages: the PyTorch reference of the Triton kernels.

GINE runs in every rooted subgraph. A node copy is a node as it occurs in one rooted
subgraph, and an edge copy is an edge as it occurs in one rooted subgraph.
"""

import torch
from torch import Tensor

from gnnak.fast.kernels.records import Edges, EdgeStates, Lifted


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
