"""GINE's sum of messages, the plain PyTorch reference."""

import torch
from torch import Tensor

from gnnak.fast.kernels.records import Edges, EdgeStates


def messages(c: Tensor, e: EdgeStates, eps: Tensor, edges: Edges) -> Tensor:
    """Return (1 + eps) c_i + sum over edges j -> i of ReLU(c_j + e_ji), as [m, w].

    Args:
        c: States of the node copies, [m, w].
        e: Edge states: one row per edge of the graph, or the affine form with one
            number per edge copy (`EdgeStates.at`).
        eps: GINE's learned scalar, [1].
        edges: The edge copies.
    """
    sent = torch.relu(c.index_select(0, edges.source) + _of_copies(e, edges))
    return ((1 + eps) * c).index_add(0, edges.target, sent)


def messages_backward(
    grad: Tensor,
    c: Tensor,
    e: EdgeStates,
    eps: Tensor,
    edges: Edges,
    more: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of `messages`.

    Args:
        grad: Gradient of the sums, [m, w].
        c: As in `messages`.
        e: As in `messages`.
        eps: As in `messages`.
        edges: As in `messages`.
        more: Another gradient of `c`, [m, w], from its other uses; it is added here to
            save a pass over memory.

    Returns:
        Gradients of `c` [m, w], of `e.values` and of `eps`.
    """
    states = _of_copies(e, edges)
    sent = c.index_select(0, edges.source) + states
    back = grad.index_select(0, edges.target) * (sent > 0)
    grad_c = (more + (1 + eps) * grad).index_add(0, edges.source, back)
    if e.number is None:
        grad_e = torch.zeros_like(e.values).index_add(0, edges.edge, back)
    else:
        back = back * (states > 0)
        of_slope = (back * e.number[:, None]).sum(dim=0)
        grad_e = torch.stack([of_slope, back.sum(dim=0)])
    return grad_c, grad_e, (grad * c).sum().view(eps.shape)


def _of_copies(e: EdgeStates, edges: Edges) -> Tensor:
    """Return the state of every edge copy, [f, w]."""
    return e.rows() if e.number is not None else e.values.index_select(0, edges.edge)
