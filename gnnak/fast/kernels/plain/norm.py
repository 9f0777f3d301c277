"""Batch norm with ReLU, residual, pool or product: the PyTorch reference."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from gnnak.fast.kernels.plain.gather import gate_grad, gates_of_copies, sum_by
from gnnak.fast.kernels.records import BIAS_COLUMN, CentroidRows, Moments, NormConstants
from gnnak.nn.norm import batch_constants, norm_gradients, real_mask
from gnnak.subgraphs.groups import Groups


def moments_of(h: Tensor, real: Tensor | None) -> Moments | None:
    """Return None: in PyTorch, `norm_constants` computes column statistics itself."""
    return None


def norm_constants(
    h: Tensor, norm: Any, real: Tensor | None, moments: Moments | None = None
) -> NormConstants:
    """Compute the scale and shift with which `norm` normalises `h`, [m, c].

    With one real row, use running statistics. Only the Triton version uses `moments`.
    """
    total: Tensor | None = None
    if norm.training:
        mean, rstd, total = batch_constants(norm, h, real, norm.synced)
    else:
        # The running mean may change in place, but backward needs the old values.
        mean, rstd = norm.running_mean.clone(), (norm.running_var + norm.eps).rsqrt()
    scale = norm.weight * rstd
    shift = norm.bias - mean * scale
    total = total if norm.training and norm.synced else None
    return NormConstants(scale, shift, mean, rstd, norm.training, real, total)


def norm_act(
    h: Tensor, k: NormConstants, relu: bool, residual: Tensor | None
) -> Tensor:
    """Return `residual + ReLU(scale h + shift)`, [m, c]; with `relu=False`, no ReLU.

    In training, only `residual` is returned in padding rows, or zero without
    `residual`. Otherwise, padding rows might grow from layer to layer.
    """
    y = h * k.scale + k.shift
    y = torch.relu(y) if relu else y
    if k.of_batch and k.real is not None:
        y = torch.where(real_mask(h, k.real), y, 0)
    return y.to(h.dtype) if residual is None else (residual + y).to(residual.dtype)


def norm_act_at(
    h: Tensor, k: NormConstants, residual: Tensor | None, index: Tensor, ones: bool
) -> Tensor:
    """Return the rows `index` of `norm_act`, with `BIAS_COLUMN` appended if `ones`."""
    rows = norm_act(h, k, True, residual).index_select(0, index)
    if not ones:
        return rows
    return torch.cat([rows, rows.new_tensor(BIAS_COLUMN).expand(len(rows), -1)], dim=1)


def norm_act_backward(
    grad: Tensor, h: Tensor, k: NormConstants, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of `h`, [m, c], and of the norm's weight and bias, [c]."""
    if relu:
        grad = grad * (h * k.scale + k.shift > 0)
    grad_h, of_weight, of_bias = norm_backward(grad, h, k)
    return grad_h.to(h.dtype), of_weight, of_bias


def norm_backward(
    grad: Tensor, h: Tensor, k: NormConstants
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of `h`, weight and bias of a batch norm without a ReLU.

    Let x = (h - mean) * rstd, and let N be the number of real rows. Then

    grad_bias = sum(grad), grad_weight = sum(grad * x),
    grad_h = scale * (grad - (grad_bias + x * grad_weight) / N).

    The term divided by N is left out in padding rows, and with running statistics.
    """
    normed = (h - k.mean) * k.rstd
    if k.total is not None:
        is_real = None if k.real is None else real_mask(h, k.real)
        return norm_gradients(grad, normed, k.scale, k.total, is_real)
    grad_bias, grad_weight = grad.sum(dim=0), (grad * normed).sum(dim=0)
    if not k.of_batch:
        return k.scale * grad, grad_weight, grad_bias
    count = h.size(0) if k.real is None else k.real.clamp(min=1)
    through_statistics = (grad_bias + normed * grad_weight) / count
    if k.real is not None:
        needed = real_mask(h, k.real) & (k.real > 1)
        through_statistics = torch.where(needed, through_statistics, 0)
    return k.scale * (grad - through_statistics), grad_weight, grad_bias


def gate_pool(
    z: Tensor,
    k: NormConstants,
    gate: Tensor | None,
    rows: Tensor | None,
    groups: Groups,
) -> Tensor:
    """Sum `gates_of_copies * ReLU(scale z + shift)` over each group, [groups, c]."""
    y = torch.relu(z * k.scale + k.shift)
    if gate is not None:
        y = y * gates_of_copies(gate, rows)
    return sum_by(y, groups)


def gate_pool_backward(
    grad: Tensor,
    z: Tensor,
    k: NormConstants,
    gate: Tensor | None,
    rows: Tensor | None,
    key: Tensor,
    into: Tensor,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Write z's gradient to `into`; return those of norm weight, norm bias and gate.

    If `rows` is None, Triton overwrites `gate`, the logits, with its gradient.
    """
    y = torch.relu(z * k.scale + k.shift)
    back, grad_gate = grad.index_select(0, key), None
    if gate is not None:
        share = gates_of_copies(gate, rows)
        grad_gate = gate_grad(share, back * y, gate, rows)
        back = back * share
    grad_z, grad_weight, grad_bias = norm_backward(back * (y > 0), z, k)
    into.copy_(grad_z)
    return grad_weight, grad_bias, grad_gate


def norm_linear(
    h: Tensor,
    k: NormConstants | None,
    matrix: Tensor,
    offset: Tensor | None,
    real: Tensor | None,
    norm_act: Callable[..., Tensor] = norm_act,
) -> tuple[Tensor, Moments | None]:
    """Return `ReLU(norm(h)) @ matrix.T + offset`; without `k`, no norm and no ReLU."""
    rows = h if k is None else norm_act(h, k, True, None)
    offset = None if offset is None else offset.to(h.dtype)
    return linear(rows, matrix.to(h.dtype), offset), None


def norm_linear_backward(
    grad: Tensor,
    h: Tensor,
    k: NormConstants,
    s: Tensor | None,
    matrix: Tensor,
    more: CentroidRows | None,
    into: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of the norm's weight and bias, of `s`, and of `matrix`.

    If `s`, the Linear's input, is None, it is recomputed as ReLU(norm(h)). `more`, if
    given, is added to the gradient of `s` in the roots' rows. The gradient of `h` is
    written to `into`, which may be `h`.
    """
    grad_matrix = grad.t() @ (norm_act(h, k, True, None) if s is None else s)
    grad_rows = grad @ matrix.to(grad.dtype)
    if more is not None:
        grad_rows.index_add_(0, more.centroid, more.values.to(grad.dtype))
    grad_h, grad_weight, grad_bias = norm_act_backward(grad_rows, h, k, True)
    into.copy_(grad_h)
    return grad_weight, grad_bias, grad_rows, grad_matrix
