"""Products of normed rows put together from a norm and a product."""

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import linear

from gnnak.fast.kernels.records import CentroidRows, NormConstants

NormAct = Callable[[Tensor, NormConstants, bool, Tensor | None], Tensor]
NormActBackward = Callable[
    [Tensor, Tensor, NormConstants, bool], tuple[Tensor, Tensor, Tensor]
]


def compose_norm_linear(
    norm_act: NormAct,
    h: Tensor,
    k: NormConstants | None,
    matrix: Tensor,
    offset: Tensor | None,
) -> Tensor:
    """What `norm_linear` gives, with this `norm_act`; its other arguments."""
    rows = h if k is None else norm_act(h, k, True, None)
    return linear(rows, matrix, offset)


def compose_norm_linear_backward(
    norm_act: NormAct,
    norm_act_backward: NormActBackward,
    grad: Tensor,
    h: Tensor,
    k: NormConstants,
    s: Tensor | None,
    matrix: Tensor,
    more: CentroidRows | None,
    into: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What `norm_linear_backward` gives, with these kernels; its other arguments."""
    grad_matrix = grad.t() @ (norm_act(h, k, True, None) if s is None else s)
    grad_rows = grad @ matrix
    if more is not None:
        grad_rows.index_add_(0, more.centroid, more.values)
    grad_h, grad_weight, grad_bias = norm_act_backward(grad_rows, h, k, True)
    into.copy_(grad_h)
    return grad_weight, grad_bias, grad_rows, grad_matrix
