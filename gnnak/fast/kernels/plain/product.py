"""Norm, ReLU and matrix product, composed of separate PyTorch operations.

`compose_norm_linear` and its backward take the kernels of the norm as arguments: the
plain reference calls them with the plain kernels, and the Triton package with its own
where PyTorch's matrix product is faster than a fused one.
"""

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import linear

from gnnak.fast.kernels.plain.norm import norm_act, norm_act_backward
from gnnak.fast.kernels.records import CentroidRows, Moments, NormConstants

NormAct = Callable[[Tensor, NormConstants, bool, Tensor | None], Tensor]
"""The signature of `norm_act`."""
NormActBackward = Callable[
    [Tensor, Tensor, NormConstants, bool], tuple[Tensor, Tensor, Tensor]
]
"""The signature of `norm_act_backward`."""


def norm_linear(
    h: Tensor,
    k: NormConstants | None,
    matrix: Tensor,
    offset: Tensor | None,
    real: Tensor | None,
) -> tuple[Tensor, Moments | None]:
    """Return `s matrix^T + offset` with `s = ReLU(scale h + shift)`, and its moments.

    Args:
        h: Rows, [m, w].
        k: The norm's scale and shift; None = multiply `h` itself.
        matrix: Weight of the product, [c, w].
        offset: Bias of the product, [c]; None = no bias.
        real: Number of rows that are not padding, a scalar; None = all.

    Returns:
        The product [m, c], and its column statistics for a following `norm_constants`;
        None where the kernel does not compute them, as here.
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

    Args:
        grad: Gradient of the product, [m, c].
        h: As in `norm_linear`.
        k: As in `norm_linear`.
        s: The left factor of the product, [m, w], if a residual was added to the normed
            rows; None = recompute it as `norm_act(h, k, True, None)`.
        matrix: As in `norm_linear`.
        more: Another gradient of s, for the rows of centroids; None = none.
        into: Output buffer for the gradient of `h`, [m, w]; it may be `h` itself.

    Returns:
        Gradients of the norm's weight [w] and bias [w], of s [m, w], and of `matrix`
        [c, w].
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
    """Compute the product of `norm_linear` as two operations: norm, then product.

    Args:
        norm_act: The kernel of the norm.
        h: As in `norm_linear`.
        k: As in `norm_linear`.
        matrix: As in `norm_linear`.
        offset: As in `norm_linear`.
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
    """Compute the gradients of `norm_linear` as separate operations.

    Args:
        norm_act: The kernel of the norm.
        norm_act_backward: The kernel of its gradients.
        grad: As in `norm_linear_backward`.
        h: As in `norm_linear_backward`.
        k: As in `norm_linear_backward`.
        s: As in `norm_linear_backward`.
        matrix: As in `norm_linear_backward`.
        more: As in `norm_linear_backward`.
        into: As in `norm_linear_backward`.

    Returns:
        As `norm_linear_backward`.
    """
    grad_matrix = grad.t() @ (norm_act(h, k, True, None) if s is None else s)
    grad_rows = grad @ matrix
    if more is not None:
        grad_rows.index_add_(0, more.centroid, more.values)
    grad_h, grad_weight, grad_bias = norm_act_backward(grad_rows, h, k, True)
    into.copy_(grad_h)
    return grad_weight, grad_bias, grad_rows, grad_matrix
