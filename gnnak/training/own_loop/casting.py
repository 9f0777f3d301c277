"""Cast the weights of all Linears to the dtype of autocast together.

With autocast, PyTorch casts each weight and each bias by a kernel of its own, and so
their gradients. These kernels are tiny, so that launching them takes longer than
running them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


class CastTogether(TorchFunctionMode):
    """Context manager: with autocast, weights of Linears are cast by a single call.

    `torch.nn.functional.linear` gets the cast weights; every other function gets the
    weights themselves. Values and gradients are those of autocast, which casts a weight
    once if the weight is used several times. Without autocast, this context manager
    does nothing.

    Args:
        model: The model that is called in the `with` block.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._cast: dict[int, Tensor] = {}
        device = next(model.parameters()).device
        if not torch.is_autocast_enabled(device.type):
            return
        weights = {
            id(weight): weight
            for module in model.modules()
            if type(module) is nn.Linear
            for weight in module.parameters(recurse=False)
            if weight.dtype == torch.float32 and weight.device == device
        }
        if weights:
            dtype = torch.get_autocast_dtype(device.type)
            found = _Cast.apply(dtype, *weights.values())
            self._cast = dict(zip(weights, found, strict=True))

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Call `func`; if it is `linear`, with the cast weights.

        Autocast casts no Linear whose input is in float64, so neither does this method.
        """
        if func is F.linear and args and args[0].dtype != torch.float64:
            args = tuple(self._cast.get(id(value), value) for value in args)
        return func(*args, **kwargs or {})


class _Cast(torch.autograd.Function):
    """Autograd function that casts several tensors to one dtype."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.dtypes = [tensor.dtype for tensor in tensors]
        ctx.set_materialize_grads(False)
        found = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
        torch._foreach_copy_(found, list(tensors))
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        pairs = zip(grads, ctx.dtypes, strict=True)
        found = [
            None if grad is None else torch.empty_like(grad, dtype=dtype)
            for grad, dtype in pairs
        ]
        given = [grad for grad in grads if grad is not None]
        torch._foreach_copy_([value for value in found if value is not None], given)
        return None, *found
