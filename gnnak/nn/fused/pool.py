"""From the base GNN's last norm to the pooled encodings."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gnnak.nn.fused.norm import Product, offset_grad, real_of, with_rows
from gnnak.nn.kernels import kernels_for
from gnnak.nn.kernels.records import AtCentroids, Moments
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs


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
    h: Product,
    residual: Tensor,
    matrix: Tensor,
    offset: Tensor | None,
    subgraphs: RootedSubgraphs,
    normed: bool,
) -> tuple[Product, Tensor]:
    """With s = `residual + ReLU(norm(h))`: `s matrix^T + offset`, and s of centroids.

    Args:
        norm: The norm.
        h: Rows, [m, w].
        residual: What is added to them, [m, w].
        matrix: What s is multiplied with, [c', w].
        offset: What is added to the products, [c'].
        subgraphs: Say which rows are centroids.
        normed: Whether norms with the statistics of the products follow.
    """
    rows, moments = h
    tensors = (norm.weight, norm.bias, residual, matrix, offset)
    at = (subgraphs.centroid, subgraphs.subgraph)
    z, at_centroid, known = _NormAddLinear.apply(
        rows, *tensors, norm, *at, normed, moments
    )
    return Product(z, known), at_centroid


def gate_pools(
    z: Product, gates: list[Tensor | None], rows: Tensor, pools: list[Pool]
) -> tuple[Tensor, ...]:
    """Norm, ReLU, gate and sum, for every pool its share of the columns of z.

    Args:
        z: Products, [m, c * pools].
        gates: For each pool its table of gates [t, c], or None.
        rows: The table row of each copy, [m].
        pools: The encodings that are pooled.
    """
    weights = [part for pool in pools for part in (pool.norm.weight, pool.norm.bias)]
    moments = [part.moments for part in z.chunk(len(pools))]
    return _GatePools.apply(z.rows, rows, pools, moments, *gates, *weights)


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
        subgraph: Tensor,
        normed: bool,
        moments: Moments | None,
    ) -> tuple[Tensor, Tensor, Moments | None]:
        kernels, real = kernels_for(h), real_of(h)
        k = kernels.norm_constants(h, norm, real, moments)
        ctx.save_for_backward(h, residual, matrix, offset, centroid, subgraph)
        ctx.k, ctx.normed = k, normed
        z, known = kernels.norm_linear(h, k, residual, matrix, offset, real)
        return z, kernels.norm_act_at(h, k, residual, centroid), known

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: Tensor, at_centroid: Tensor, _: None
    ) -> tuple[Any, ...]:
        h, residual, matrix, offset, *at = ctx.saved_tensors
        back = kernels_for(h).norm_linear_backward(
            grad, h, ctx.k, residual, matrix, AtCentroids(at_centroid, *at)
        )
        grad_offset = offset_grad(grad, offset, ctx.normed)
        return *back, grad_offset, *(None,) * 5


class _GatePools(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        rows: Tensor,
        pools: list[Pool],
        moments: list[Moments | None],
        *parameters: Any,
    ) -> tuple[Tensor, ...]:
        kernels, real = kernels_for(z), real_of(z)
        gates = parameters[: len(pools)]
        parts = z.chunk(len(pools), dim=1)
        constants = [
            kernels.norm_constants(part, pool.norm, real, known)
            for part, pool, known in zip(parts, pools, moments, strict=True)
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
                with_rows(grad),
                part,
                ctx.constants[index],
                gates[index],
                rows,
                pool.key,
                into,
            )
            of_gates.append(grad_gate)
            of_norms += [grad_weight, grad_bias]
        return grad_z, None, None, None, *of_gates, *of_norms
