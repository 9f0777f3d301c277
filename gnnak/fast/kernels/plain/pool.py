"""Norm, ReLU, gate and segment sum, the plain PyTorch reference."""

import torch
from torch import Tensor

from gnnak.fast.kernels.plain.gather import sum_by, table_sum
from gnnak.fast.kernels.plain.norm import norm_backward
from gnnak.fast.kernels.records import NormConstants
from gnnak.subgraphs.groups import Groups


def gate_pool(
    z: Tensor, k: NormConstants, gate: Tensor | None, rows: Tensor, groups: Groups
) -> Tensor:
    """Return for each group the sum of `gate[rows] * ReLU(scale z + shift)`, [k, c].

    Args:
        z: Rows before the norm, [m, c].
        k: The norm's scale and shift.
        gate: A factor for every row of the hop table, [t, c]; None = no gate.
        rows: For each copy its row of `gate`, [m].
        groups: The copies that are summed into one output row.
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
        grad: Gradient of the pooled rows, [k, c].
        z: As in `gate_pool`.
        k: As in `gate_pool`.
        gate: As in `gate_pool`.
        rows: As in `gate_pool`.
        key: The group that each copy belongs to, [m].
        into: Output buffer for the gradient of `z`, [m, c]; it may be `z` itself.

    Returns:
        Gradients of the norm's weight [c], of its bias [c], and of the gate [t, c] or
        None.
    """
    y = torch.relu(z * k.scale + k.shift)
    back, grad_gate = grad.index_select(0, key), None
    if gate is not None:
        grad_gate = table_sum(back * y, rows, gate.size(0))
        back = back * gate.index_select(0, rows)
    grad_z, grad_weight, grad_bias = norm_backward(back * (y > 0), z, k)
    into.copy_(grad_z)
    return grad_weight, grad_bias, grad_gate
