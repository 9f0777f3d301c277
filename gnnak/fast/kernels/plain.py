"""The kernels in plain PyTorch: what every fast one must agree with."""

import torch
from torch import Tensor, nn

from gnnak.fast.kernels.composed import (
    compose_norm_linear,
    compose_norm_linear_backward,
)
from gnnak.fast.kernels.members import members
from gnnak.fast.kernels.plain_gcn import gcn_scale as gcn_scale
from gnnak.fast.kernels.plain_gcn import gcn_sum as gcn_sum
from gnnak.fast.kernels.plain_gine import messages as messages
from gnnak.fast.kernels.plain_gine import messages_backward as messages_backward
from gnnak.fast.kernels.plain_pna import pair_sum as pair_sum
from gnnak.fast.kernels.plain_pna import pna_pool as pna_pool
from gnnak.fast.kernels.plain_pna import pna_pool_backward as pna_pool_backward
from gnnak.fast.kernels.records import BIAS_COLUMN, CentroidRows, Moments, NormConstants
from gnnak.subgraphs.groups import Groups


def lift(x: Tensor, table: Tensor | None, node: Tensor, rows: Tensor) -> Tensor:
    """Node states beside table rows, `[x[node] || table[rows]]`, [m, c + h]."""
    copies = x.index_select(0, node)
    if table is None:
        return copies
    return torch.cat([copies, table.index_select(0, rows)], dim=1)


def sum_by(values: Tensor, groups: Groups) -> Tensor:
    """Sum of the rows of `values` [m, c] in each group, [k, c]."""
    key, row = members(groups)
    out = values.new_zeros(len(groups), values.size(1))
    return out.index_add(0, key, values.index_select(0, row))


def weighted_sum(
    values: Tensor, index: Tensor, weight: Tensor, groups: Groups
) -> Tensor:
    """Sum of `weight[q] * values[index[q]]` over the entries q of a group, [k, c]."""
    share = weight.to(values.dtype)[:, None] * values.index_select(0, index)
    return sum_by(share, groups)


def table_sum(values: Tensor, rows: Tensor, size: int) -> Tensor:
    """Sum of the rows of `values` [m, c] for each row of a small table, [size, c]."""
    return values.new_zeros(size, values.size(1)).index_add(0, rows, values)


def moments_of(h: Tensor, real: Tensor | None) -> Moments | None:
    """Statistics of parts of the rows [m, c]: none, a norm looks at them all itself."""
    return None


def norm_constants(
    h: Tensor,
    norm: nn.BatchNorm1d,
    real: Tensor | None,
    moments: Moments | None = None,
) -> NormConstants:
    """What `norm` does to these rows; in training it also remembers their statistics.

    A single real row, which has none, is normed with the running statistics.

    Args:
        h: Rows, [m, c].
        norm: The norm.
        real: How many of the first rows are no padding, a scalar; None = all.
        moments: What the product that gave the rows knows of them; not read here.
    """
    assert norm.running_mean is not None
    assert norm.running_var is not None
    # A copy: the backward pass needs what it is now, whatever comes between.
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
    """Move the running statistics of a norm towards these, where wanted."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    assert norm.momentum is not None
    norm.num_batches_tracked.add_(wanted)
    for running, now in ((norm.running_mean, mean), (norm.running_var, variance)):
        now = torch.where(wanted, now.to(running.dtype), running)
        running.lerp_(now, norm.momentum)


def norm_act(
    h: Tensor, k: NormConstants, relu: bool, residual: Tensor | None
) -> Tensor:
    """`residual + ReLU(scale h + shift)`, the last two parts if asked for.

    Padding is normed to zero, so that it never grows from layer to layer.
    """
    y = h * k.scale + k.shift
    y = torch.relu(y) if relu else y
    if k.of_batch and k.real is not None:
        y = torch.where(_kept(h, k.real), y, 0)
    return y if residual is None else residual + y


def norm_act_at(
    h: Tensor, k: NormConstants, residual: Tensor | None, index: Tensor, ones: bool
) -> Tensor:
    """Some rows of `norm_act(h, k, True, residual)`, [s, c], or with `BIAS_COLUMN` behind."""
    rows = norm_act(h, k, True, residual).index_select(0, index)
    if not ones:
        return rows
    return torch.cat([rows, rows.new_tensor(BIAS_COLUMN).expand(len(rows), -1)], dim=1)


def norm_act_backward(
    grad: Tensor, h: Tensor, k: NormConstants, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `norm_act`: of h [m, c], of the norm's weight and bias [c]."""
    if relu:
        grad = grad * (h * k.scale + k.shift > 0)
    return _norm_backward(grad, h, k)


def norm_linear(
    h: Tensor,
    k: NormConstants | None,
    matrix: Tensor,
    offset: Tensor | None,
    real: Tensor | None,
) -> tuple[Tensor, Moments | None]:
    """`norm_act(h, k, True, None) matrix^T + offset`, and its moments.

    Args:
        h: Rows, [m, w].
        k: What a norm does to them; None = they are multiplied as they are.
        matrix: [c, w].
        offset: [c].
        real: How many of the first rows are no padding, a scalar; None = all.

    Returns:
        Products [m, c], and what `norm_constants` may be told of them.
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
    """Gradients of `norm_linear`: of weight, bias, the normed rows and the matrix.

    Args:
        grad: Of the products, [m, c].
        h: As of `norm_linear`, and so `k` and `matrix`.
        k: Scale and shift.
        s: The rows that were multiplied, where something was added to the normed ones;
            None = nothing was.
        matrix: What they were multiplied with.
        more: A further gradient of these rows.
        into: Where the gradient of h goes, [m, w].

    Returns:
        Gradients [w], [w], [m, w] and [c, w].
    """
    given = (grad, h, k, s, matrix, more, into)
    return compose_norm_linear_backward(norm_act, norm_act_backward, *given)


def gate_pool(
    z: Tensor, k: NormConstants, gate: Tensor | None, rows: Tensor, groups: Groups
) -> Tensor:
    """Sum over groups of `gate[rows] * ReLU(scale z + shift)`, [k, c]."""
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
    """Gradients of `gate_pool`: of weight and bias [c] and of the gate [t, c].

    The gradient of z [m, c] goes `into` a tensor of its shape.

    Args:
        grad: Of the pooled rows, [k, c].
        z: As of `gate_pool`, and so `k`, `gate` and `rows`.
        k: Scale and shift.
        gate: The gate's table.
        rows: The table row of each copy.
        key: The group each copy is in, [m].
        into: Where the gradient of z goes.
    """
    y = torch.relu(z * k.scale + k.shift)
    back, grad_gate = grad.index_select(0, key), None
    if gate is not None:
        grad_gate = table_sum(back * y, rows, gate.size(0))
        back = back * gate.index_select(0, rows)
    grad_z, grad_weight, grad_bias = _norm_backward(back * (y > 0), z, k)
    into.copy_(grad_z)
    return grad_weight, grad_bias, grad_gate


def _norm_backward(
    grad: Tensor, h: Tensor, k: NormConstants
) -> tuple[Tensor, Tensor, Tensor]:
    normed = (h - k.mean) * k.rstd
    grad_bias, grad_weight = grad.sum(dim=0), (grad * normed).sum(dim=0)
    if not k.of_batch:
        return k.scale * grad, grad_weight, grad_bias
    count = h.size(0) if k.real is None else k.real.clamp(min=1)
    pull = (grad_bias + normed * grad_weight) / count
    if k.real is not None:
        pull = torch.where(_kept(h, k.real) & (k.real > 1), pull, 0)
    return k.scale * (grad - pull), grad_weight, grad_bias


def statistics(h: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and biased variance of the columns, [c] each, and the number of rows."""
    if real is None:
        count = torch.full((), h.size(0), device=h.device)
        return h.mean(dim=0), h.var(dim=0, unbiased=False), count
    kept, count = _kept(h, real), real.clamp(min=1)
    mean = torch.where(kept, h, 0).sum(dim=0) / count
    centred = torch.where(kept, h - mean, 0)
    return mean, centred.square().sum(dim=0) / count, count


def _kept(h: Tensor, real: Tensor) -> Tensor:
    return (torch.arange(h.size(0), device=h.device) < real)[:, None]
