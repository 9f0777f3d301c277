"""GINE's kernels in plain PyTorch."""

import torch
from torch import Tensor

from gnnak.fast.kernels.records import Edges, EdgeStates


def messages(c: Tensor, e: EdgeStates, eps: Tensor, edges: Edges) -> Tensor:
    """(1 + eps) c_i + sum over edges j -> i of ReLU(c_j + e_ji), [m, w].

    Args:
        c: States of copies, [m, w].
        e: Rows for all edges, or a line with a number for every edge copy.
        eps: A number, [1].
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
    """Gradients of `messages`: of c [m, w], of the values of e, and of eps.

    Args:
        grad: Of the sums, [m, w].
        c: As of `messages`, and so `e`, `eps` and `edges`.
        e: States of the edges.
        eps: The number.
        edges: The edge copies.
        more: A further gradient of c, [m, w], that is added.
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
    """States of edge copies, [f, w]."""
    return e.rows() if e.number is not None else e.values.index_select(0, edges.edge)
