"""Batch norm, ReLU, gate and segment sum: the PyTorch reference of the Triton kernels.

This is the pooling of GNN-AK. There is a row for each node copy (a node as seen in one
rooted subgraph). Rows are normalised, multiplied by a gate that depends on the hop (the
distance from the root), and summed by subgraph or by node.
"""

import torch
from torch import Tensor

from gnnak.fast.kernels.plain.gather import sum_by, table_sum
from gnnak.fast.kernels.plain.norm import norm_backward
from gnnak.fast.kernels.records import NormConstants
from gnnak.subgraphs.groups import Groups


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
