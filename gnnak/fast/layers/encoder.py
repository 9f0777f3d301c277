"""Encodings of continuous features, made again wherever a backward pass reads them.

They have a row for every edge and are as wide as states, but follow from a column or
two: what computes with them need not keep them.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import linear

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import NormConstants
from gnnak.fast.layers.parts import Block, can_fuse_norm
from gnnak.nn.norm import BatchNorm


def others_hook() -> bool:
    """Whether someone else decides what autograd keeps, such as a checkpoint."""
    top = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return top is not None and getattr(top[0], "__module__", None) != __name__


def can_recompute(block: Block, values: Tensor) -> bool:
    """Whether what `recomputed_encoding` gives is that of the block, and worth it.

    Others who decide what autograd keeps, checkpoints above all, are not disturbed.
    """
    kind = values.device.type
    if torch.is_autocast_enabled(kind) or not torch.is_grad_enabled():
        return False
    if not block.norm.training or not can_fuse_norm(block.norm, values):
        return False
    return not others_hook()


@contextmanager
def recomputed_encoding(block: Block, values: Tensor) -> Iterator[Tensor]:
    """Linear, norm, ReLU of values [r, v]; what is computed inside does not keep it.

    Args:
        block: The Linear, without bias, and the norm.
        values: The features.
    """
    matrix = block.linear.weight
    weights = block.norm.weight, block.norm.bias
    states, k = _Encode.apply(values, matrix, *weights, block.norm)
    mine, unchanged = weakref.ref(states), states._version

    def pack(saved: Tensor) -> tuple[Tensor, int] | None:
        """What is kept of a tensor, and how often it was changed; None = nothing."""
        if saved._version == unchanged and _are_same(saved, mine()):
            return None
        # A result that is saved with its own history would hold itself.
        return saved.detach(), saved._version

    def unpack(packed: tuple[Tensor, int] | None) -> Tensor:
        """The tensor again."""
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
    """Whether two tensors are the same numbers in memory."""
    if other is None or one.shape != other.shape or one.stride() != other.stride():
        return False
    return one.data_ptr() == other.data_ptr() and one.dtype == other.dtype


@torch.no_grad()
def _states(values: Tensor, matrix: Tensor, k: NormConstants) -> Tensor:
    kernels = kernels_for(values)
    return kernels.norm_act(linear(values, matrix), k, True, None)


class _Encode(torch.autograd.Function):
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
        back = kernels_for(h).norm_act_backward(grad, h, ctx.k, True)
        grad_h, grad_weight, grad_bias = back
        of_values = grad_h @ matrix if ctx.needs_input_grad[0] else None
        return of_values, grad_h.t() @ values, grad_weight, grad_bias, None
