"""The gates of a layer for every distance to the root, computed together.

The tables are tiny, so launching kernels takes longer than running them: two gates need
half as many kernels together as one after the other.
"""

from typing import Any

import torch
from torch import Tensor, nn

from gnnak.nn.gates import HopGate


def gate_tables(gates: nn.ModuleDict, d: Tensor) -> dict[str, Tensor]:
    r"""Compute $\text{Sigmoid}(W \mathbf{d} + b)$ of all gates, for every distance.

    Args:
        gates: The gates by name.
        d: The distance embeddings, [t, h].

    Returns:
        For each gate, its values for each distance, [t, c].
    """
    linears = [gate.linear for gate in gates.values() if isinstance(gate, HopGate)]
    simple = len(linears) == len(gates) > 1
    if not simple or torch.is_autocast_enabled(d.device.type):
        return {name: gate(d) for name, gate in gates.items()}
    weights = [linear.weight for linear in linears]
    tables = _Gates.apply(d, *weights, *(linear.bias for linear in linears))
    return dict(zip(gates, tables, strict=True))


class _Gates(torch.autograd.Function):
    """Autograd function of `gate_tables`.

    `weights` are the weight matrices of all gates, [c, h] each, then their biases, [c]
    each.
    """

    @staticmethod
    def forward(ctx: Any, d: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        values = _values(d, list(weights))
        ctx.save_for_backward(d, values, *weights)
        return values.unbind()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        d, values, *weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            # The gradients are differentiated again, so autograd has to see the gates.
            values = _values(d, weights)
        back = torch.stack(grads) * values * (1 - values)
        matrix = torch.stack(weights[: len(grads)])
        of_matrix = back.transpose(1, 2) @ d
        return (back @ matrix).sum(dim=0), *of_matrix.unbind(), *back.sum(dim=1)


def _values(d: Tensor, weights: list[Tensor]) -> Tensor:
    """Return the values of all gates, [number of gates, t, c].

    Args:
        d: The distance embeddings, [t, h].
        weights: The matrices of all gates, [c, h] each, then their biases, [c] each.
    """
    count = len(weights) // 2
    matrix, bias = torch.stack(weights[:count]), torch.stack(weights[count:])
    given = (bias[:, None], d.expand(count, *d.shape), matrix.transpose(1, 2))
    return torch.baddbmm(*given).sigmoid()
