"""The second half of a fused GNN-AK layer, from the base GNN's last norm on."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import CentroidRows, Moments, NormConstants
from gnnak.fast.layers.norm import offset_grad
from gnnak.fast.layers.rows import (
    CachedRecompute,
    Recompute,
    Rows,
    can_overwrite,
    recompute_function,
    saved_or_recomputed,
    to_save,
    with_unit_stride,
)
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs


class Pool(NamedTuple):
    """The last norm of an encoding's MLP, and the groups of node copies to sum."""

    norm: BatchNorm
    """The last norm of the encoding's MLP, directly before the sum."""
    groups: Groups
    """The node copies that are summed into each output row."""
    key: Tensor
    """[m]: the output row that each node copy is added to."""


def norm_add_linear(
    norm: BatchNorm,
    h: Rows,
    residual: Rows,
    matrix: Tensor,
    offset: Tensor | None,
    subgraphs: RootedSubgraphs,
    norm_follows: bool,
    bias_column: bool,
) -> tuple[Rows, Tensor]:
    """Compute `s = residual + ReLU(norm(h))`, then a Linear, `z = s matrix^T + offset`.

    The backward pass recomputes s and z. The second result has those rows of s that
    belong to roots; if `bias_column`, `BIAS_COLUMN` is appended to each of these rows.
    """
    recompute_residual = recompute_function(residual.recompute)

    def states(h: Tensor, *saved: Tensor | None) -> Tensor:
        residual = saved_or_recomputed(saved, recompute_residual)
        return kernels_for(h).norm_act(h, k, True, residual)

    def product(matrix: Tensor, offset: Tensor | None, *for_s: Tensor | None) -> Tensor:
        return linear(cached_s(*for_s), matrix, offset)

    def uncached_product(matrix: Tensor, offset: Tensor | None, *for_s: Any) -> Tensor:
        return linear(states(*for_s), matrix, offset)

    cached_s = CachedRecompute(states)
    z, at_centroid, k, moments = _NormAddLinear.apply(
        h.values,
        norm.weight,
        norm.bias,
        residual.values,
        matrix,
        offset,
        norm,
        (subgraphs.centroid, subgraphs.subgraph),
        norm_follows,
        bias_column,
        h.moments,
        residual.recompute,
        cached_s,
    )
    # Only the backward pass of `_NormAddLinear` clears the cache, so cache only if it
    # will run.
    cached_s.caches = z.requires_grad
    for_s = (h.values, *to_save(residual.values, residual.recompute))
    recompute = Recompute(
        product, (matrix, offset, *for_s), owned=True, uncached=uncached_product
    )
    return Rows(z, moments, recompute), at_centroid


def gate_pools(
    z: Rows, gates: list[Tensor | None], rows: Tensor, pools: list[Pool]
) -> tuple[Tensor, ...]:
    """Compute the pooled encodings: norm, ReLU, product with a gate, and segment sum.

    `z`, [m, c * encodings], has c adjacent columns for each encoding. `gates` has a
    table, [t, c], for each encoding with gates; node copy i uses row `rows[i]`.
    """
    weights = [part for pool in pools for part in (pool.norm.weight, pool.norm.bias)]
    count = len(pools)
    moments = [None] * count if z.moments is None else z.moments.chunk(count)
    return _GatePools.apply(
        z.values, rows, pools, moments, z.recompute, *gates, *weights
    )


class _NormAddLinear(torch.autograd.Function):
    """Autograd function of `norm_add_linear`."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor,
        matrix: Tensor,
        offset: Tensor | None,
        norm: BatchNorm,
        centroids: tuple[Tensor, Tensor],
        norm_follows: bool,
        bias_column: bool,
        moments: Moments | None,
        recompute: Recompute | None,
        cached_s: CachedRecompute,
    ) -> tuple[Tensor, Tensor, NormConstants, Moments | None]:
        kernels = kernels_for(h)
        k = kernels.norm_constants(h, norm, norm.real_rows(), moments)
        ctx.save_for_backward(matrix, offset, h, *to_save(residual, recompute))
        ctx.k, ctx.norm_follows = k, norm_follows
        ctx.centroids, ctx.cached_s = centroids, cached_s
        z = linear(kernels.norm_act(h, k, True, residual), matrix, offset)
        z_moments = kernels.moments_of(z, k.real) if norm_follows else None
        at_centroid = kernels.norm_act_at(h, k, residual, centroids[0], bias_column)
        return z, at_centroid, k, z_moments

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: Tensor, grad_centroid: Tensor, *_: None
    ) -> tuple[Any, ...]:
        matrix, offset, *for_s = ctx.saved_tensors
        h, s = for_s[0], ctx.cached_s(*for_s)
        ctx.cached_s.release()
        grad_centroid = with_unit_stride(grad_centroid)[:, : h.size(1)]
        more = CentroidRows(grad_centroid, *ctx.centroids)
        grad_h = torch.empty_like(h)
        grads = kernels_for(h).norm_linear_backward(
            grad, h, ctx.k, s, matrix, more, grad_h
        )
        grad_offset = None
        if ctx.needs_input_grad[5]:
            grad_offset = offset_grad(grad, offset, ctx.norm_follows)
        return grad_h, *grads, grad_offset, *[None] * 7


class _GatePools(torch.autograd.Function):
    """Autograd function of `gate_pools`; `parameters`: gates, then norm weights."""

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        rows: Tensor,
        pools: list[Pool],
        moments: list[Moments | None],
        recompute: Recompute | None,
        *parameters: Any,
    ) -> tuple[Tensor, ...]:
        kernels, real = kernels_for(z), pools[0].norm.real_rows()
        gates = parameters[: len(pools)]
        parts = z.chunk(len(pools), dim=1)
        constants = [
            kernels.norm_constants(part, pool.norm, real, known)
            for part, pool, known in zip(parts, pools, moments, strict=True)
        ]
        ctx.save_for_backward(*gates, *to_save(z, recompute))
        ctx.rows, ctx.pools, ctx.constants = rows, pools, constants
        ctx.recompute = recompute_function(recompute)
        ctx.overwrite = can_overwrite(recompute)
        return tuple(
            kernels.gate_pool(part, k, gate, rows, pool.groups)
            for part, k, gate, pool in zip(parts, constants, gates, pools, strict=True)
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        rows, pools, saved = ctx.rows, ctx.pools, ctx.saved_tensors
        count = len(pools)
        gates = saved[:count]
        z = saved_or_recomputed(saved[count:], ctx.recompute)
        kernels = kernels_for(z)
        grad_z = z if ctx.overwrite else torch.empty_like(z)
        parts = (tensor.chunk(count, dim=1) for tensor in (z, grad_z))
        grad_gates, grad_norms = [], []
        for grad, part, into, k, gate, pool in zip(
            grads, *parts, ctx.constants, gates, pools, strict=True
        ):
            *of_norm, grad_gate = kernels.gate_pool_backward(
                with_unit_stride(grad), part, k, gate, rows, pool.key, into
            )
            grad_gates.append(grad_gate)
            grad_norms += of_norm
        return grad_z, None, None, None, None, *grad_gates, *grad_norms
