"""Encode continuous edge features, and recompute them in the backward pass."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import linear

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.plain import remember, statistics
from gnnak.fast.kernels.records import EdgeStates, NormConstants
from gnnak.fast.layers.parts import (
    Block,
    blocks_of,
    can_fuse_norm,
    has_hooks,
    is_fusable,
)
from gnnak.nn.features import ContinuousEncoder
from gnnak.nn.norm import BatchNorm


def has_foreign_hooks() -> bool:
    """Return whether code outside this module has set saved-tensor hooks.

    Saved-tensor hooks (`torch.autograd.graph.saved_tensors_hooks`) decide what is saved
    for backward. Activation checkpointing, for example, sets such hooks.
    """
    top = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return top is not None and getattr(top[0], "__module__", None) != __name__


def can_recompute(block: Block, values: Tensor) -> bool:
    """Return whether `recomputed_encoding` supports this block and these features.

    This is the case if the block is in training mode, gradients are enabled, autocast
    is off, fused kernels support the norm, and no code outside this module has set
    saved-tensor hooks, as activation checkpointing does.

    Args:
        block: The Linear and the norm of the encoder.
        values: The features of r edges, [r, v].
    """
    kind = values.device.type
    if torch.is_autocast_enabled(kind) or not torch.is_grad_enabled():
        return False
    if not block.norm.training or not can_fuse_norm(block.norm, values):
        return False
    return not has_foreign_hooks()


@contextmanager
def recomputed_encoding(block: Block, values: Tensor) -> Iterator[Tensor]:
    """Context manager: yield an encoding that is recomputed in the backward pass.

    The encoding is `ReLU(norm(linear(values)))`, [r, c]. Operations within the `with`
    block do not save the encoding for backward: saved-tensor hooks drop the encoding
    and recompute it in the backward pass.

    Args:
        block: The Linear, without bias, and the norm.
        values: The features of r edges, [r, v].
    """
    matrix = block.linear.weight
    weights = block.norm.weight, block.norm.bias
    states, k = _Encode.apply(values, matrix, *weights, block.norm)
    states_ref, states_version = weakref.ref(states), states._version

    def pack(saved: Tensor) -> tuple[Tensor, int] | None:
        """Return None if `saved` is the encoding, else `saved` and its version counter.

        PyTorch increases the version counter of a tensor with every in-place change. If
        the encoding was changed in place, it is stored like any other tensor.
        """
        if saved._version == states_version and _are_same(saved, states_ref()):
            return None
        # Detach: if an operation saves its own result, the result would refer to the
        # operation and the operation to the result, a reference cycle.
        return saved.detach(), saved._version

    def unpack(packed: tuple[Tensor, int] | None) -> Tensor:
        """Return the tensor that `pack` stored or, for None, recompute the encoding."""
        if packed is None:
            return _states(values, matrix, k)
        saved, version = packed
        if saved._version != version:
            raise RuntimeError(
                f"a tensor of shape {list(saved.shape)} that a gradient needs was "
                "changed in place; change a clone of it."
            )
        return saved

    with saved_tensors_hooks(pack, unpack):
        yield states


def _are_same(one: Tensor, other: Tensor | None) -> bool:
    """Return whether two tensors are the same view of the same memory."""
    if other is None or one.shape != other.shape or one.stride() != other.stride():
        return False
    return one.data_ptr() == other.data_ptr() and one.dtype == other.dtype


@torch.no_grad()
def _states(values: Tensor, matrix: Tensor, k: NormConstants) -> Tensor:
    """Recompute `ReLU(norm(linear(values)))` without autograd.

    Args:
        values: The features, a row per edge.
        matrix: Weight of the Linear.
        k: The norm's scale and shift, as computed in the forward pass.
    """
    kernels = kernels_for(values)
    return kernels.norm_act(linear(values, matrix), k, True, None)


class _Encode(torch.autograd.Function):
    """Autograd function: encode edge features by a Linear, a batch norm and a ReLU.

    It returns the encoding and the norm's scale and shift. For backward it saves only
    the features and the weight of the Linear.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        matrix: Tensor,
        weight: Tensor,
        bias: Tensor,
        norm: BatchNorm,
    ) -> tuple[Tensor, NormConstants]:
        h, kernels = linear(values, matrix), kernels_for(values)
        k = kernels.norm_constants(h, norm, norm.real_rows())
        ctx.save_for_backward(values, matrix)
        ctx.k = k
        return kernels.norm_act(h, k, True, None), k

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor | None, ...]:
        values, matrix = ctx.saved_tensors
        h, grad = linear(values, matrix), grad.contiguous()
        grads = kernels_for(h).norm_act_backward(grad, h, ctx.k, True)
        grad_h, grad_weight, grad_bias = grads
        grad_values = grad_h @ matrix if ctx.needs_input_grad[0] else None
        return grad_values, grad_h.t() @ values, grad_weight, grad_bias, None


def affine_states(
    encoder: nn.Module, values: Tensor | None, num_edges: int
) -> EdgeStates | None:
    """Return edge states as a slope, an offset and one number per edge, if possible.

    The state of an edge is then ReLU(slope * number + offset). This is possible if the
    encoder is a `ContinuousEncoder` of one feature without forward hooks, if fused
    kernels support the encoder's norm, if there are at least two edges, and if the
    features need no gradient. Otherwise return None.

    Args:
        encoder: The encoder of raw edge features.
        values: The raw edge features, [e] or [e, v], a row for each of the e edges; may
            be None for encoders other than `ContinuousEncoder`.
        num_edges: Number of edges, e.
    """
    if type(encoder) is not ContinuousEncoder or encoder.in_channels > 1:
        return None
    column = encoder.checked(values, num_edges)
    (block,) = blocks_of(nn.Sequential(encoder.block))
    hooked = any(map(has_hooks, encoder.modules()))
    if hooked or column.requires_grad or num_edges < 2 or not is_fusable(block.norm):
        return None
    return EdgeStates(_slope_and_offset(block, column), column[:, 0])


def _slope_and_offset(block: Block, values: Tensor) -> Tensor:
    """Combine a Linear and a batch norm into one slope and one offset per channel.

    In training, the norm takes its statistics from `values`, one raw number per edge,
    and updates its running statistics.
    """
    norm, weight = block.norm, block.linear.weight[:, 0]
    assert norm.running_mean is not None
    assert norm.running_var is not None
    # Clone the running mean: the backward pass reads the mean that is used here, and
    # training updates the running mean in place.
    mean, variance = norm.running_mean.clone(), norm.running_var
    if norm.training:
        value_mean, value_variance, count = statistics(values, norm.real_rows())
        batch_mean = value_mean * weight
        batch_variance = value_variance * weight.square()
        several = count > 1
        mean = torch.where(several, batch_mean, mean)
        variance = torch.where(several, batch_variance, variance)
        with torch.no_grad():
            unbiased = batch_variance * count / (count - 1).clamp(min=1)
            remember(norm, batch_mean, unbiased, several)
    scale = norm.weight * (variance + norm.eps).rsqrt()
    return torch.stack([scale * weight, norm.bias - scale * mean])
