"""From the base GNN's last norm to the pooled encodings."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gnnak.nn.fused.norm import affine, offset_grad
from gnnak.nn.kernels import kernels_for
from gnnak.nn.padding import current_real_rows
from gnnak.subgraphs.groups import Groups


class Pool(NamedTuple):
    """One pooled encoding: whose copies, and how they are normed before."""

    norm: nn.BatchNorm1d
    """The norm, over its share of the columns."""
    groups: Groups
    """The copies that are pooled into one row."""
    key: Tensor
    """[m]: the group each copy is in."""


def norm_add_linear(
    norm: nn.BatchNorm1d,
    h: Tensor,
    residual: Tensor,
    matrix: Tensor,
    offset: Tensor | None,
    centroid: Tensor,
    normed: bool,
) -> tuple[Tensor, Tensor]:
    """With s = `residual + ReLU(norm(h))`: `s matrix^T + offset`, and s of centroids.

    Args:
        norm: The norm.
        h: Rows, [m, w].
        residual: What is added to them, [m, w].
        matrix: What s is multiplied with, [c', w].
        offset: What is added to the products, [c'].
        centroid: The rows of centroids, [s].
        normed: Whether norms with the statistics of the products follow.
    """
    weight, bias = norm.weight, norm.bias
    return _NormAddLinear.apply(
        h, weight, bias, residual, matrix, offset, norm, centroid, normed
    )


def gate_pools(
    z: Tensor, gates: list[Tensor | None], rows: Tensor, pools: list[Pool]
) -> tuple[Tensor, ...]:
    """Norm, ReLU, gate and sum, for every pool its share of the columns of z.

    Args:
        z: Products, [m, c * pools].
        gates: For each pool its table of gates [t, c], or None.
        rows: The table row of each copy, [m].
        pools: The encodings that are pooled.
    """
    weights = [part for pool in pools for part in (pool.norm.weight, pool.norm.bias)]
    return _GatePools.apply(z, rows, pools, *gates, *weights)


class _NormAddLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor,
        matrix: Tensor,
        offset: Tensor | None,
        norm: nn.BatchNorm1d,
        centroid: Tensor,
        normed: bool,
    ) -> tuple[Tensor, Tensor]:
        kernels = kernels_for(h)
        k = kernels.norm_constants(h, norm, current_real_rows().get(h.size(0)))
        s = kernels.norm_act(h, k, True, residual)
        ctx.save_for_backward(h, residual, matrix, offset, centroid)
        ctx.k, ctx.normed = k, normed
        return affine(s, matrix, offset), s.index_select(0, centroid)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, at_centroid: Tensor) -> tuple[Any, ...]:
        h, residual, matrix, offset, centroid = ctx.saved_tensors
        kernels = kernels_for(h)
        s = kernels.norm_act(h, ctx.k, True, residual)
        grad_matrix = grad.t() @ s
        del s
        grad_s = (grad @ matrix).index_add_(0, centroid, at_centroid)
        back = kernels.norm_act_backward(grad_s, h, ctx.k, True)
        grad_offset = offset_grad(grad, offset, ctx.normed)
        return *back, grad_s, grad_matrix, grad_offset, None, None, None


class _GatePools(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, z: Tensor, rows: Tensor, pools: list[Pool], *parameters: Any
    ) -> tuple[Tensor, ...]:
        kernels, real = kernels_for(z), current_real_rows().get(z.size(0))
        gates = parameters[: len(pools)]
        parts = z.chunk(len(pools), dim=1)
        constants = [
            kernels.norm_constants(part, pool.norm, real)
            for part, pool in zip(parts, pools, strict=True)
        ]
        ctx.save_for_backward(z, rows, *gates)
        ctx.pools, ctx.constants = pools, constants
        return tuple(
            kernels.gate_pool(part, k, gate, rows, pool.groups)
            for part, k, gate, pool in zip(parts, constants, gates, pools, strict=True)
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        z, rows, *gates = ctx.saved_tensors
        kernels, pools = kernels_for(z), ctx.pools
        grad_z = torch.empty_like(z)
        of_gates, of_norms = [], []
        for index, (pool, grad) in enumerate(zip(pools, grads, strict=True)):
            part, into = (t.chunk(len(pools), dim=1)[index] for t in (z, grad_z))
            grad_weight, grad_bias, grad_gate = kernels.gate_pool_backward(
                grad.contiguous(),
                part,
                ctx.constants[index],
                gates[index],
                rows,
                pool.key,
                into,
            )
            of_gates.append(grad_gate)
            of_norms += [grad_weight, grad_bias]
        return grad_z, None, None, *of_gates, *of_norms
