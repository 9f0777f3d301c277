"""Encode continuous edge features, and recompute them in the backward pass."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import linear

from gnnak.fast.kernels import kernels_for
from gnnak.fast.kernels.records import NormConstants
from gnnak.fast.layers.parts import (
    Block,
    Serves,
    blocks_of,
    can_fuse_norm,
    has_hooks,
    implements,
)
from gnnak.nn.features import ContinuousEncoder
from gnnak.nn.norm import BatchNorm


@implements("run_with_edges")
def run_recomputing(
    serves: Serves,
    encoder: nn.Module,
    values: Tensor | None,
    num_edges: int,
    run: Callable[[Tensor], Tensor],
) -> Tensor:
    """Call `run` with encoded edge features, which the backward pass recomputes."""
    if type(encoder) is not ContinuousEncoder or has_hooks(encoder):
        return NotImplemented
    checked = encoder.checked(values, num_edges)
    (block,) = blocks_of(nn.Sequential(encoder.block))
    is_full = checked.dtype in (torch.float, torch.double)
    if not is_full or not serves(checked) or not can_recompute(block, checked):
        return NotImplemented
    with recomputed_encoding(block, checked) as states:
        return run(states)


def has_foreign_hooks() -> bool:
    """Return whether other code, such as checkpointing, set saved-tensor hooks."""
    top = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return top is not None and getattr(top[0], "__module__", None) != __name__


def can_recompute(block: Block, values: Tensor) -> bool:
    """Return whether `recomputed_encoding` supports this block and these features."""
    kind = values.device.type
    if torch.is_autocast_enabled(kind) or not torch.is_grad_enabled():
        return False
    if not block.norm.training or not can_fuse_norm(block.norm, values):
        return False
    return not has_foreign_hooks()


@contextmanager
def recomputed_encoding(block: Block, values: Tensor) -> Iterator[Tensor]:
    """Context manager: yield `ReLU(norm(linear(values)))`, [e, c].

    Operations in the `with` block do not save this encoding for backward.
    """
    matrix = block.linear.weight
    weights = block.norm.weight, block.norm.bias
    states, k = _Encode.apply(values, matrix, *weights, block.norm)
    states_ref, states_version = weakref.ref(states), states._version

    def pack(saved: Tensor) -> tuple[Tensor, int] | None:
        """Return None for the unchanged encoding, else `saved` and its version."""
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
    """Recompute `ReLU(norm(linear(values)))` with the norm's constants `k`."""
    return kernels_for(values).norm_act(linear(values, matrix), k, True, None)


class _Encode(torch.autograd.Function):
    """Autograd function of `ReLU(norm(linear(values)))`; it saves only the features."""

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
