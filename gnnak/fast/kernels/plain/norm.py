"""Batch norm with ReLU and residual: the PyTorch reference of the Triton kernels."""

from typing import Any

import torch
from torch import Tensor, nn

from gnnak.fast.kernels.records import BIAS_COLUMN, Moments, NormConstants


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
