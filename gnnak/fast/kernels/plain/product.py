"""Batch norm, ReLU and matrix product, composed of separate operations.

`compose_norm_linear` and `compose_norm_linear_backward` take the functions that compute
the norm as arguments. `norm_linear` in this module passes functions in plain PyTorch.
`norm_linear` in the Triton package passes Triton kernels, and calls these functions if
PyTorch's matrix product is faster than a fused Triton kernel.
"""

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import linear

from gnnak.fast.kernels.plain.norm import norm_act, norm_act_backward
from gnnak.fast.kernels.records import CentroidRows, Moments, NormConstants

NormAct = Callable[[Tensor, NormConstants, bool, Tensor | None], Tensor]
"""Type of the function `norm_act`, which computes batch norm, ReLU and residual."""
NormActBackward = Callable[
    [Tensor, Tensor, NormConstants, bool], tuple[Tensor, Tensor, Tensor]
]
"""Type of the function `norm_act_backward`, which computes the gradients of batch norm
and ReLU."""


def norm_linear(
    h: Tensor,
    k: NormConstants | None,
    matrix: Tensor,
    offset: Tensor | None,
    real: Tensor | None,
) -> tuple[Tensor, Moments | None]:
    """Compute a batch norm, a ReLU and a Linear: `s matrix^T + offset`.

    Here `s = ReLU(scale h + shift)` is the output of norm and ReLU.

    Args:
        h: Rows before the norm, [m, w].
        k: The batch norm's scale and shift; None = no norm and no ReLU, s = h.
        matrix: Weight of the Linear, [c, w].
        offset: Bias of the Linear, [c]; None = no bias.
        real: Number of rows that are not padding, a scalar; None = all.

    Returns:
        The output of the Linear, [m, c], and None. The Triton version of this function
        returns column statistics of the output in place of None.
    """
    return compose_norm_linear(norm_act, h, k, matrix, offset), None


def norm_linear_backward(
    grad: Tensor,
    h: Tensor,
    k: NormConstants,
    s: Tensor | None,
    matrix: Tensor,
    more: CentroidRows | None,
    into: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute the gradients of `norm_linear`.

    The forward pass was a batch norm and a ReLU, with output s, and a Linear of s.

    Args:
        grad: Gradient of the Linear's output, [m, c].
        h: Rows before the norm, [m, w].
        k: Scale, shift and statistics of the batch norm.
        s: Input of the Linear, [m, w]; must be given if a residual was added to
            ReLU(scale h + shift). None = recompute s = ReLU(scale h + shift).
        matrix: Weight of the Linear, [c, w].
        more: Further gradient of s, from another use of the rows of root nodes; None =
            there is none.
        into: Buffer that receives the gradient of `h`, [m, w]. It may be `h` itself,
            which is then overwritten.

    Returns:
        Gradients of the norm's weight [w], of the norm's bias [w], of s [m, w], and of
        `matrix` [c, w].
    """
    given = (grad, h, k, s, matrix, more, into)
    return compose_norm_linear_backward(norm_act, norm_act_backward, *given)


def compose_norm_linear(
    norm_act: NormAct,
    h: Tensor,
    k: NormConstants | None,
    matrix: Tensor,
    offset: Tensor | None,
) -> Tensor:
    """Compute `norm_linear` as two operations: norm with ReLU, then Linear.

    Args:
        norm_act: The function that computes norm and ReLU.
        h: Rows before the norm, [m, w].
        k: The batch norm's scale and shift; None = no norm and no ReLU.
        matrix: Weight of the Linear, [c, w].
        offset: Bias of the Linear, [c]; None = no bias.

    Returns:
        The output of the Linear, [m, c].
    """
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
    """Compute the gradients of `s @ matrix.T` with `s = ReLU(norm(h))`.

    Args:
        norm_act: The function that computes norm and ReLU.
        norm_act_backward: The function that computes the gradients of norm and ReLU.
        grad: Gradient of `s @ matrix.T`, [m, c].
        h: Rows before the norm, [m, w].
        k: Scale, shift and statistics of the batch norm.
        s: ReLU(norm(h)), [m, w]; None = recompute s from `h`.
        matrix: Weight of the Linear, [c, w].
        more: Further gradient of s, from another use of the rows of root nodes; None =
            there is none.
        into: Buffer that the gradient of `h`, [m, w], is written to; may be `h` itself.

    Returns:
        Gradients of the norm's weight [w], of the norm's bias [w], of s [m, w], and of
        `matrix` [c, w].
    """
    grad_matrix = grad.t() @ (norm_act(h, k, True, None) if s is None else s)
    grad_rows = grad @ matrix
    if more is not None:
        grad_rows.index_add_(0, more.centroid, more.values)
    grad_h, grad_weight, grad_bias = norm_act_backward(grad_rows, h, k, True)
    into.copy_(grad_h)
    return grad_weight, grad_bias, grad_rows, grad_matrix
