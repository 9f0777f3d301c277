"""Batch norm and ReLU, fused with what follows: a residual sum, a Linear, or a pool.

The backward pass recomputes the output of the norm. In shapes, m is the number of rows.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.functional import linear

from gnnak.distributed import several_processes
from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import CentroidRows, Moments, NormConstants
from gnnak.fast.layers.parts import (
    NORMS,
    CachedRecompute,
    Recompute,
    Rows,
    Serves,
    can_fuse_norm,
    can_overwrite,
    can_store,
    gates_or_logits,
    has_hooks,
    implements,
    index_of,
    recompute_function,
    saved_or_recomputed,
    table_grad,
    to_save,
    with_unit_stride,
)
from gnnak.nn.norm import BatchNorm, NormReluDropout, current_real_rows
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs


class GivenNorm(NamedTuple):
    """A batch norm in training mode, as a record of tensors without a module."""

    running_mean: Tensor
    running_var: Tensor
    weight: Tensor
    bias: Tensor
    momentum: float
    eps: float
    real: Tensor | None
    """Number of rows that are not padding, a scalar; None if there is no padding."""
    training: bool = True
    num_batches_tracked: Tensor | None = None
    """None for PyTorch's `BatchNorm` modules: they count their batches themselves."""
    synced: bool = False

    def real_rows(self) -> Tensor | None:
        return self.real


AnyNorm = BatchNorm | nn.SyncBatchNorm | GivenNorm


def as_given(norm: AnyNorm) -> BatchNorm | GivenNorm:
    """Return PyTorch's `SyncBatchNorm`, whose rows are nodes, as a record."""
    if not isinstance(norm, nn.SyncBatchNorm):
        return norm
    real, synced = current_real_rows().nodes, several_processes()
    return _given(norm, real, synced)


def _given(
    norm: BatchNorm | nn.SyncBatchNorm, real: Tensor | None, synced: bool
) -> GivenNorm:
    parts: Any = norm.running_mean, norm.running_var, norm.weight, norm.bias
    tracked = norm.num_batches_tracked
    options: Any = norm.momentum, norm.eps, real, norm.training, tracked, synced
    return GivenNorm(*parts, *options)


@implements("over_rows")
def norm_over_rows(serves: Serves, norm: BatchNorm, x: Tensor) -> Tensor:
    if not can_store(x.dtype) or not serves(x) or not can_fuse_norm(norm, x):
        return NotImplemented
    return norm_rows(norm, x)


@implements("norm_over_processes")
def fused_over_processes(
    serves: Serves,
    norm: BatchNorm | nn.SyncBatchNorm,
    x: Tensor,
    real: Tensor | None,
) -> Tensor:
    if not can_store(x.dtype) or not serves(x) or not can_fuse_norm(norm, x):
        return NotImplemented
    return norm_rows(_given(norm, real, synced=True), x)


@implements("norm_real_rows")
def norm_real_rows(
    serves: Serves,
    x: Tensor,
    count: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
) -> Tensor:
    if running_mean is None or running_var is None or not serves(x):
        return NotImplemented
    if weight is None or bias is None or x.size(0) < 2 or x.stride(1) != 1:
        return NotImplemented
    norm = GivenNorm(running_mean, running_var, weight, bias, momentum, eps, count)
    return norm_rows(norm, x)


@implements("added_to")
def norm_added_to(
    serves: Serves, block: NormReluDropout, x: Tensor, out: Tensor
) -> Tensor:
    """Compute `x + block(out)` in one pass over memory."""
    norm, _, dropout = block
    if type(norm) not in NORMS:
        return NotImplemented
    assert isinstance(norm, NORMS)
    assert isinstance(dropout, nn.Dropout)
    same = torch.promote_types(x.dtype, out.dtype) == x.dtype
    if any(map(has_hooks, block.modules())) or not same:
        return NotImplemented
    if not can_store(out.dtype) or not serves(out) or not can_fuse_norm(norm, out):
        return NotImplemented
    return norm_relu_add(norm, Rows(out), x, dropout.p if dropout.training else 0.0)


def norm_rows(norm: BatchNorm | GivenNorm, h: Tensor) -> Tensor:
    return _NormAct.apply(h, norm.weight, norm.bias, None, norm, False, None)


def norm_relu(norm: AnyNorm, h: Rows, residual: Tensor | None = None) -> Tensor:
    """Return `residual + ReLU(norm(h))`, [m, c]. No residual means 0."""
    norm = as_given(norm)
    parameters = norm.weight, norm.bias
    return _NormAct.apply(h.values, *parameters, residual, norm, True, h.moments)


def norm_relu_add(
    norm: AnyNorm, h: Rows, residual: Tensor, dropout: float = 0.0
) -> Tensor:
    """Return `residual + Dropout(ReLU(norm(h)))`, [m, c]."""
    if not dropout:
        return norm_relu(norm, h, residual)
    return residual + F.dropout(norm_relu(norm, h), dropout)


def norm_relu_linear(
    norm: AnyNorm, h: Rows, linear: nn.Linear, norm_follows: bool
) -> Rows:
    """Compute `linear(ReLU(norm(h)))`, [m, c']."""
    (out,) = norm_relu_linears([norm], h, [linear], norm_follows)
    return out


def norm_relu_linears(
    norms: Sequence[AnyNorm],
    h: Rows,
    linears: Sequence[nn.Linear],
    norm_follows: bool,
    recompute: bool = False,
) -> list[Rows]:
    """Split the columns of `h` evenly; apply a norm, ReLU and Linear to each part."""
    norms = [as_given(norm) for norm in norms]
    weights = _weights_of(norms, linears)
    cached_h = None
    if recompute and h.recompute is not None:
        cached_h = CachedRecompute(h.recompute.uncached or h.recompute.function)
        h = h._replace(recompute=h.recompute._replace(function=cached_h))
    *outs, moments, constants = _NormLinears.apply(
        h.values, norms, norm_follows, *h[1:], *weights
    )
    if cached_h is not None:
        # Only the backward pass of `_NormLinears` clears the cache, so cache only if it
        # will run.
        cached_h.caches = outs[0].requires_grad
    recomputes: list[Recompute | None] = [None] * len(norms)
    if recompute:
        pairs = enumerate(zip(constants, linears, strict=True))
        recomputes = [_product_recompute(h, i, len(norms), *pair) for i, pair in pairs]
    return [Rows(*part) for part in zip(outs, moments, recomputes, strict=True)]


def norm_relu_joint_linear(
    norms: Sequence[AnyNorm], h: Tensor, linears: Sequence[nn.Linear]
) -> Rows:
    """Compute the sum of all outputs of `norm_relu_linears`; a norm must follow."""
    norms = [as_given(norm) for norm in norms]
    return Rows(*_NormJointLinear.apply(h, norms, *_weights_of(norms, linears)))


def _weights_of(
    norms: Sequence[AnyNorm], linears: Sequence[nn.Linear]
) -> list[Tensor | None]:
    return [
        part
        for norm, linear in zip(norms, linears, strict=True)
        for part in (norm.weight, norm.bias, linear.weight, linear.bias)
    ]


def _product_recompute(
    h: Rows, index: int, count: int, k: NormConstants, linear: nn.Linear
) -> Recompute:
    recompute_h = recompute_function(h.recompute)

    def product(matrix: Tensor, offset: Tensor | None, *saved: Tensor | None) -> Tensor:
        part = saved_or_recomputed(saved, recompute_h).chunk(count, dim=1)[index]
        kernels = kernels_for(part)
        return kernels.norm_linear(part, k, matrix, offset, k.real)[0]

    saved = (linear.weight, linear.bias, *to_save(h.values, h.recompute))
    return Recompute(product, saved, owned=True)


class _NormAct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor | None,
        norm: BatchNorm | GivenNorm,
        relu: bool,
        moments: Moments | None,
    ) -> Tensor:
        kernels = kernels_for(h)
        k = kernels.norm_constants(h, norm, norm.real_rows(), moments)
        ctx.save_for_backward(h)
        ctx.k, ctx.relu, ctx.has_residual = k, relu, residual is not None
        return kernels.norm_act(h, k, relu, residual)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (h,) = ctx.saved_tensors
        grad = grad.contiguous()
        grads = kernels_for(h).norm_act_backward(grad, h, ctx.k, ctx.relu)
        return *grads, grad if ctx.has_residual else None, None, None, None


class _NormLinears(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        norms: Sequence[BatchNorm | GivenNorm],
        norm_follows: bool,
        moments: Moments | None,
        recompute: Recompute | None,
        *weights: Tensor | None,
    ) -> tuple[Any, ...]:
        kernels, real, count = kernels_for(h), norms[0].real_rows(), len(norms)
        matrices, offsets = weights[2::4], weights[3::4]
        h_parts = h.chunk(count, dim=1)
        ctx.constants = _constants_of_parts(h, norms, moments)
        ctx.save_for_backward(*matrices, *offsets, *to_save(h, recompute))
        ctx.norm_follows = norm_follows
        ctx.recompute = recompute_function(recompute)
        ctx.overwrite = can_overwrite(recompute)
        results = [
            kernels.norm_linear(part, k, matrix, offset, real)
            for part, k, matrix, offset in zip(
                h_parts, ctx.constants, matrices, offsets, strict=True
            )
        ]
        outs, out_moments = zip(*results, strict=True)
        return *outs, out_moments, ctx.constants

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        count = len(ctx.constants)
        saved = ctx.saved_tensors
        matrices, offsets = saved[:count], saved[count : 2 * count]
        h = saved_or_recomputed(saved[2 * count :], ctx.recompute)
        if isinstance(ctx.recompute, CachedRecompute):
            # Functions that read the results ran their backward passes before this one,
            # so h is not needed any more.
            ctx.recompute.release()
        grad_h = h if ctx.overwrite else torch.empty_like(h)
        parts = (rows.chunk(count, dim=1) for rows in (h, grad_h))
        grad_weights: list[Tensor | None] = []
        for grad, part, into, k, matrix, offset in zip(
            grads, *parts, ctx.constants, matrices, offsets, strict=False
        ):
            back = kernels_for(h).norm_linear_backward(
                grad, part, k, None, matrix, None, into
            )
            grad_offset = offset_grad(grad, offset, ctx.norm_follows)
            grad_weights += [*back[:2], back[3], grad_offset]
            # Free `back[2]`, an unused [m, c] gradient, before the next part.
            del back
        return grad_h, None, None, None, None, *grad_weights


def _constants_of_parts(
    h: Tensor, norms: Sequence[BatchNorm | GivenNorm], moments: Moments | None
) -> list[NormConstants]:
    """Compute the constants of norms, each of which normalises some columns of `h`."""
    kernels, real, count = kernels_for(h), norms[0].real_rows(), len(norms)
    of_parts = [None] * count if moments is None else moments.chunk(count)
    parts = zip(h.chunk(count, dim=1), norms, of_parts, strict=True)
    return [kernels.norm_constants(part, norm, real, m) for part, norm, m in parts]


class _NormJointLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        norms: Sequence[BatchNorm | GivenNorm],
        *weights: Any,
    ) -> tuple[Tensor, Moments | None]:
        kernels, real = kernels_for(h), norms[0].real_rows()
        k = _joint(_constants_of_parts(h, norms, kernels.moments_of(h, real)))
        matrix, offsets = torch.cat(weights[2::4], dim=1), weights[3::4]
        ctx.save_for_backward(h, matrix, *offsets)
        ctx.k = k
        given = [offset for offset in offsets if offset is not None]
        offset = torch.stack(given).sum(dim=0) if given else None
        return kernels.norm_linear(h, k, matrix, offset, real)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor | None, ...]:
        h, matrix, *offsets = ctx.saved_tensors
        grad, grad_h, count = grad.contiguous(), torch.empty_like(h), len(offsets)
        of_weight, of_bias, _, of_matrix = kernels_for(h).norm_linear_backward(
            grad, h, ctx.k, None, matrix, None, grad_h
        )
        of_offsets = [offset_grad(grad, each, norm_follows=True) for each in offsets]
        parts = of_weight.chunk(count), of_bias.chunk(count), of_matrix.chunk(count, 1)
        of_all = zip(*parts, of_offsets, strict=True)
        return grad_h, None, *(each for part in of_all for each in part)


def _joint(constants: Sequence[NormConstants]) -> NormConstants:
    """Join the constants of norms that normalise different columns."""
    fields = zip(*(k[:4] for k in constants), strict=True)
    joint = torch.cat([part for field in fields for part in field]).view(4, -1)
    scale, shift, mean, rstd = joint
    totals = [k.total for k in constants if k.total is not None]
    total = torch.cat(totals) if totals else None
    of_batch, real = constants[0].of_batch, constants[0].real
    return NormConstants(scale, shift, mean, rstd, of_batch, real, total)


def offset_grad(
    grad: Tensor, offset: Tensor | None, norm_follows: bool
) -> Tensor | None:
    """Return the gradient of `offset`, a bias; it is zero if a norm follows."""
    if offset is None:
        return None
    if norm_follows:
        return torch.zeros_like(offset)
    return grad.sum(dim=0, dtype=offset.dtype)


class Pool(NamedTuple):
    """How to pool an encoding: the last norm of its MLP, and groups of node copies."""

    norm: BatchNorm | nn.SyncBatchNorm
    groups: Groups
    """The node copies that are summed into each output row."""
    key: Tensor
    """[m]: the output row that each node copy is added to."""


def norm_add_linear(
    norm: AnyNorm,
    h: Rows,
    residual: Rows,
    matrix: Tensor,
    offset: Tensor | None,
    subgraphs: RootedSubgraphs,
    norm_follows: bool,
    bias_column: bool,
) -> tuple[Rows, Tensor]:
    """Compute s = residual + ReLU(norm(h)), then a Linear, z = s matrix^T + offset.

    Returns z, [m, c'], and those rows of s that belong to roots. If `bias_column`, four
    columns 1, 0, 0, 0 are appended to the latter. Backward passes recompute s and z.
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
        as_given(norm),
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
    """Compute pooled encodings: norm, ReLU, product with a gate, and segment sum.

    If `rows` are coefficients (see `encoding_rows`), `gates` are tables of logits.
    """
    weights = [part for pool in pools for part in (pool.norm.weight, pool.norm.bias)]
    count = len(pools)
    moments = [None] * count if z.moments is None else z.moments.chunk(count)
    return _GatePools.apply(
        z.values, rows, pools, moments, z.recompute, *gates, *weights
    )


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
        norm: BatchNorm | GivenNorm,
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
    """Autograd function of `gate_pools`; `parameters` are gates, then norm weights."""

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
        kernels, norms = kernels_for(z), [as_given(pool.norm) for pool in pools]
        gates, real = parameters[: len(pools)], norms[0].real_rows()
        parts = z.chunk(len(pools), dim=1)
        constants = [
            kernels.norm_constants(part, norm, real, known)
            for part, norm, known in zip(parts, norms, moments, strict=True)
        ]
        ctx.save_for_backward(*gates, *to_save(z, recompute))
        ctx.rows, ctx.pools, ctx.constants = rows, pools, constants
        ctx.recompute = recompute_function(recompute)
        ctx.overwrite = can_overwrite(recompute)
        index = index_of(rows)
        return tuple(
            kernels.gate_pool(part, k, gates_or_logits(gate, rows), index, pool.groups)
            for part, k, gate, pool in zip(parts, constants, gates, pools, strict=True)
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        rows, pools, saved = ctx.rows, ctx.pools, ctx.saved_tensors
        index, count = index_of(rows), len(pools)
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
                with_unit_stride(grad),
                part,
                k,
                gates_or_logits(gate, rows),
                index,
                pool.key,
                into,
            )
            if grad_gate is not None and index is None:
                grad_gate = table_grad(grad_gate, rows, gate.dtype)
            grad_gates.append(grad_gate)
            grad_norms += of_norm
        return grad_z, None, None, None, None, *grad_gates, *grad_norms
