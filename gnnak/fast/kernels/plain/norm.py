"""Batch norm with ReLU, residual, pool or product: the PyTorch reference."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from gnnak.fast.kernels.plain.gather import sum_by, table_sum
from gnnak.fast.kernels.records import BIAS_COLUMN, CentroidRows, Moments, NormConstants
from gnnak.subgraphs.groups import Groups


def moments_of(h: Tensor, real: Tensor | None) -> Moments | None:
    """Return None: the PyTorch `norm_constants` computes the statistics of `h` itself.

    The Triton function of this name returns `Moments`: for every column and block of
    rows, the mean and the sum of squared deviations.

    Args:
        h: Rows to normalise, [m, c].
        real: Number of rows that are not padding, a scalar; None = all.
    """
    return None


def norm_constants(
    h: Tensor,
    norm: Any,
    real: Tensor | None,
    moments: Moments | None = None,
) -> NormConstants:
    """Compute the scale and shift with which `norm` normalises `h`.

    In training mode, scale and shift come from the mean and variance of the rows that
    are not padding, and the running statistics of `norm` are updated in place. In
    evaluation mode, and for a batch with a single row (whose variance is undefined),
    scale and shift come from the running statistics.

    Args:
        h: Rows to normalise, [m, c].
        norm: The batch norm, in training or evaluation mode: a module, or an object
            with the same tensors and options.
        real: Number of rows that are not padding, a scalar; None = all.
        moments: Ignored: this version in PyTorch always computes the statistics of `h`.
            The GPU version has the same signature.
    """
    assert norm.running_mean is not None
    assert norm.running_var is not None
    # `remember` changes the running mean in place, but backward needs the old values.
    mean, variance = norm.running_mean.clone(), norm.running_var
    if norm.training:
        found, spread, count = statistics(h, real)
        mean = torch.where(count > 1, found, mean)
        variance = torch.where(count > 1, spread, variance)
        remember(norm, found, spread * count / (count - 1).clamp(min=1), count > 1)
    rstd = (variance + norm.eps).rsqrt()
    scale = norm.weight * rstd
    shift = norm.bias - mean * scale
    return NormConstants(scale, shift, mean, rstd, norm.training, real)


def remember(
    norm: nn.BatchNorm1d, mean: Tensor, variance: Tensor, wanted: Tensor
) -> None:
    """Update the running statistics of `norm` in place with statistics of a batch.

    Args:
        norm: The batch norm.
        mean: Mean of every column in the batch, [c].
        variance: Unbiased variance of every column in the batch, [c].
        wanted: Boolean scalar tensor; if False, nothing changes. It stays on the
            device, because reading it on the host would synchronise.
    """
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.momentum is not None
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(wanted)
    for running, now in ((norm.running_mean, mean), (norm.running_var, variance)):
        now = torch.where(wanted, now.to(running.dtype), running)
        running.lerp_(now, norm.momentum)


def norm_act(
    h: Tensor, k: NormConstants, relu: bool, residual: Tensor | None
) -> Tensor:
    """Return `residual + ReLU(scale h + shift)`, [m, c].

    If the norm uses batch statistics, padding rows of the ReLU's output are set to zero
    before the residual is added. Otherwise padding rows could grow from layer to layer.

    Args:
        h: Rows before the norm, [m, c].
        k: The batch norm's scale and shift, and the number of non-padding rows.
        relu: Whether to apply the ReLU; False = the norm's output is used directly.
        residual: Added at the end, [m, c]; None = no residual.
    """
    y = h * k.scale + k.shift
    y = torch.relu(y) if relu else y
    if k.of_batch and k.real is not None:
        y = torch.where(_is_real(h, k.real), y, 0)
    return y if residual is None else residual + y


def norm_act_at(
    h: Tensor, k: NormConstants, residual: Tensor | None, index: Tensor, ones: bool
) -> Tensor:
    """Return selected rows of `residual + ReLU(scale h + shift)`, [s, c].

    Args:
        h: Rows before the norm, [m, c].
        k: The batch norm's scale and shift, as in `norm_act`.
        residual: Added after the ReLU, [m, c]; None = no residual.
        index: Indices of the s rows to return, [s].
        ones: Whether to append `BIAS_COLUMN`, (1, 0, 0, 0), to every row; the result is
            then [s, c + 4].
    """
    rows = norm_act(h, k, True, residual).index_select(0, index)
    if not ones:
        return rows
    return torch.cat([rows, rows.new_tensor(BIAS_COLUMN).expand(len(rows), -1)], dim=1)


def norm_act_backward(
    grad: Tensor, h: Tensor, k: NormConstants, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of `norm_act` with respect to `h`, weight and bias.

    Args:
        grad: Gradient of the result of `norm_act`, [m, c].
        h: Rows before the norm, [m, c].
        k: Scale, shift and statistics of the batch norm, as in `norm_act`.
        relu: Whether `norm_act` applied the ReLU.

    Returns:
        Gradients of `h` [m, c], of the norm's weight [c] and of its bias [c].
    """
    if relu:
        grad = grad * (h * k.scale + k.shift > 0)
    return norm_backward(grad, h, k)


def norm_backward(
    grad: Tensor, h: Tensor, k: NormConstants
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of the batch norm alone, without ReLU and residual.

    With x = (h - mean) * rstd over N rows that are not padding:

    grad_bias = sum(grad), grad_weight = sum(grad * x),
    grad_h = scale * (grad - (grad_bias + x * grad_weight) / N).

    The term divided by N arises because mean and rstd depend on h. It is zero for
    padding rows, and if mean and rstd are running statistics.

    Args:
        grad: Gradient of the norm's output, [m, c].
        h: Rows before the norm, [m, c].
        k: Scale, shift and statistics of the batch norm.

    Returns:
        Gradients of `h` [m, c], of the norm's weight [c] and of its bias [c].
    """
    normed = (h - k.mean) * k.rstd
    grad_bias, grad_weight = grad.sum(dim=0), (grad * normed).sum(dim=0)
    if not k.of_batch:
        return k.scale * grad, grad_weight, grad_bias
    count = h.size(0) if k.real is None else k.real.clamp(min=1)
    through_statistics = (grad_bias + normed * grad_weight) / count
    if k.real is not None:
        needed = _is_real(h, k.real) & (k.real > 1)
        through_statistics = torch.where(needed, through_statistics, 0)
    return k.scale * (grad - through_statistics), grad_weight, grad_bias


def statistics(h: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean, the biased variance and the number of rows, without padding.

    Args:
        h: Rows, [m, c]; padding rows come last.
        real: Number of rows that are not padding, a scalar; None = all.

    Returns:
        Mean [c], variance [c], and the number of rows (a scalar, at least 1).
    """
    if real is None:
        count = torch.full((), h.size(0), device=h.device)
        return h.mean(dim=0), h.var(dim=0, unbiased=False), count
    is_real, count = _is_real(h, real), real.clamp(min=1)
    mean = torch.where(is_real, h, 0).sum(dim=0) / count
    centred = torch.where(is_real, h - mean, 0)
    return mean, centred.square().sum(dim=0) / count, count


def _is_real(h: Tensor, real: Tensor) -> Tensor:
    """Return a boolean mask, [m, 1]: True for the first `real` rows of `h` [m, c]."""
    return (torch.arange(h.size(0), device=h.device) < real)[:, None]


def gate_pool(
    z: Tensor, k: NormConstants, gate: Tensor | None, rows: Tensor, groups: Groups
) -> Tensor:
    """Return the sum of `gate[rows] * ReLU(scale z + shift)` over each group of rows.

    Args:
        z: One row for each of the m node copies (nodes as seen in one rooted subgraph),
            before the norm, [m, c].
        k: The batch norm's scale and shift.
        gate: Factors for each of t hops (distances from the root), [t, c]; None = 1.
        rows: The row of `gate` for each node copy, [m].
        groups: Which node copies are summed into each output row.

    Returns:
        One sum per group, [number of groups, c].
    """
    y = torch.relu(z * k.scale + k.shift)
    if gate is not None:
        y = y * gate.index_select(0, rows)
    return sum_by(y, groups)


def gate_pool_backward(
    grad: Tensor,
    z: Tensor,
    k: NormConstants,
    gate: Tensor | None,
    rows: Tensor,
    key: Tensor,
    into: Tensor,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compute the gradients of `gate_pool`.

    Args:
        grad: Gradient of the result of `gate_pool`, [number of groups, c].
        z: One row for each of the m node copies (nodes as seen in one rooted subgraph),
            before the norm, [m, c].
        k: Scale, shift and statistics of the batch norm.
        gate: Factors for each of t hops (distances from the root), [t, c]; None = 1.
        rows: The row of `gate` for each node copy, [m].
        key: The group into whose sum each node copy was added, [m].
        into: Buffer that receives the gradient of `z`, [m, c]. It may be `z` itself,
            which is then overwritten.

    Returns:
        Gradients of the norm's weight [c], of the norm's bias [c], and of `gate` [t, c]
        (None if `gate` is None).
    """
    y = torch.relu(z * k.scale + k.shift)
    back, grad_gate = grad.index_select(0, key), None
    if gate is not None:
        grad_gate = table_sum(back * y, rows, gate.size(0))
        back = back * gate.index_select(0, rows)
    grad_z, grad_weight, grad_bias = norm_backward(back * (y > 0), z, k)
    into.copy_(grad_z)
    return grad_weight, grad_bias, grad_gate


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
