"""From the base GNN's last norm to the pooled encodings."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import CentroidRows, Moments, NormConstants
from gnnak.fast.layers.norm import offset_grad
from gnnak.fast.layers.rows import (
    Once,
    Recompute,
    Rows,
    can_overwrite,
    kept,
    maker,
    side_by_side,
    to_save,
)
from gnnak.nn.norm import BatchNorm
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs


class Pool(NamedTuple):
    """One pooled encoding: whose copies, and how they are normed before."""

    norm: BatchNorm
    """The norm, over its share of the columns."""
    groups: Groups
    """The copies that are pooled into one row."""
    key: Tensor
    """[m]: the group each copy is in."""


def norm_add_linear(
    norm: BatchNorm,
    h: Rows,
    residual: Rows,
    matrix: Tensor,
    offset: Tensor | None,
    subgraphs: RootedSubgraphs,
    normed: bool,
    ones: bool,
) -> tuple[Rows, Tensor]:
    """With s = `residual + ReLU(norm(h))`: `s matrix^T + offset`, and s of centroids.

    Args:
        norm: The norm.
        h: Rows, [m, w].
        residual: What is added to them, [m, w].
        matrix: What s is multiplied with, [c', w].
        offset: What is added to the products, [c'].
        subgraphs: Say which rows are centroids.
        normed: Whether norms with the statistics of the products follow.
        ones: Whether states of centroids have `BIAS_COLUMN` behind them.

    Returns:
        Products, which are not kept but made again, s once for them and for their
        gradients, unless they are held for long; and states of centroids.
    """
    make_residual = maker(residual.again)

    def make_s(h: Tensor, *saved: Tensor | None) -> Tensor:
        return kernels_for(h).norm_act(h, k, True, kept(saved, make_residual))

    def make_z(matrix: Tensor, offset: Tensor | None, *of_s: Tensor | None) -> Tensor:
        return linear(once(*of_s), matrix, offset)

    def make_alone(matrix: Tensor, offset: Tensor | None, *of_s: Any) -> Tensor:
        return linear(make_s(*of_s), matrix, offset)

    once = Once(make_s)
    z, at_centroid, k, moments = _NormAddLinear.apply(
        h.values,
        norm.weight,
        norm.bias,
        residual.values,
        matrix,
        offset,
        norm,
        (subgraphs.centroid, subgraphs.subgraph),
        normed,
        ones,
        h.moments,
        residual.again,
        once,
    )
    once.holds = z.requires_grad
    of_s = (h.values, *to_save(residual.values, residual.again))
    again = Recompute(make_z, (matrix, offset, *of_s), owned=True, alone=make_alone)
    return Rows(z, moments, again), at_centroid


def gate_pools(
    z: Rows, gates: list[Tensor | None], rows: Tensor, pools: list[Pool]
) -> tuple[Tensor, ...]:
    """Norm, ReLU, gate and sum, for every pool its share of the columns of z.

    Args:
        z: Products, [m, c * pools].
        gates: For each pool its table of gates [t, c], or None.
        rows: The table row of each copy, [m].
        pools: The encodings that are pooled.
    """
    weights = [part for pool in pools for part in (pool.norm.weight, pool.norm.bias)]
    known = [None] * len(pools) if z.moments is None else z.moments.chunk(len(pools))
    return _GatePools.apply(z.values, rows, pools, known, z.again, *gates, *weights)


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
        norm: BatchNorm,
        places: tuple[Tensor, Tensor],
        normed: bool,
        ones: bool,
        moments: Moments | None,
        again: Recompute | None,
        once: Once,
    ) -> tuple[Tensor, Tensor, NormConstants, Moments | None]:
        kernels = kernels_for(h)
        k = kernels.norm_constants(h, norm, norm.real_rows(), moments)
        ctx.save_for_backward(matrix, offset, h, *to_save(residual, again))
        ctx.k, ctx.normed, ctx.places, ctx.once = k, normed, places, once
        z = linear(kernels.norm_act(h, k, True, residual), matrix, offset)
        known = kernels.moments_of(z, k.real) if normed else None
        return z, kernels.norm_act_at(h, k, residual, places[0], ones), k, known

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: Tensor, at_centroid: Tensor, *_: None
    ) -> tuple[Any, ...]:
        matrix, offset, *of_s = ctx.saved_tensors
        h, s = of_s[0], ctx.once(*of_s)
        ctx.once.release()
        at_centroid = side_by_side(at_centroid)[:, : h.size(1)]
        more = CentroidRows(at_centroid, *ctx.places)
        grad_h = torch.empty_like(h)
        given = (grad, h, ctx.k, s, matrix, more, grad_h)
        back = kernels_for(h).norm_linear_backward(*given)
        grad_offset = None
        if ctx.needs_input_grad[5]:
            grad_offset = offset_grad(grad, offset, ctx.normed)
        return grad_h, *back, grad_offset, *[None] * 7


class _GatePools(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        rows: Tensor,
        pools: list[Pool],
        moments: list[Moments | None],
        again: Recompute | None,
        *parameters: Any,
    ) -> tuple[Tensor, ...]:
        kernels, real = kernels_for(z), pools[0].norm.real_rows()
        gates = parameters[: len(pools)]
        parts = z.chunk(len(pools), dim=1)
        constants = [
            kernels.norm_constants(part, pool.norm, real, known)
            for part, pool, known in zip(parts, pools, moments, strict=True)
        ]
        ctx.save_for_backward(*gates, *to_save(z, again))
        ctx.rows, ctx.pools, ctx.constants = rows, pools, constants
        ctx.make, ctx.over = maker(again), can_overwrite(again)
        return tuple(
            kernels.gate_pool(part, k, gate, rows, pool.groups)
            for part, k, gate, pool in zip(parts, constants, gates, pools, strict=True)
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        rows, pools, saved = ctx.rows, ctx.pools, ctx.saved_tensors
        gates, z = saved[: len(pools)], kept(saved[len(pools) :], ctx.make)
        kernels = kernels_for(z)
        grad_z = z if ctx.over else torch.empty_like(z)
        of_gates, of_norms = [], []
        for index, (pool, grad) in enumerate(zip(pools, grads, strict=True)):
            part, into = (t.chunk(len(pools), dim=1)[index] for t in (z, grad_z))
            grad_weight, grad_bias, grad_gate = kernels.gate_pool_backward(
                side_by_side(grad),
                part,
                ctx.constants[index],
                gates[index],
                rows,
                pool.key,
                into,
            )
            of_gates.append(grad_gate)
            of_norms += [grad_weight, grad_bias]
        return grad_z, None, None, None, None, *of_gates, *of_norms
